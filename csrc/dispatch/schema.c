/* dispatch/schema.c -- reading a schema string. */
#include "dispatch/schema.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* One allocation holds everything: the struct, the arguments, the returns, then the names and
 * texts. */
typedef struct parser {
  const char* text; /* the whole schema */
  const char* p;    /* next character */
  char* pool;       /* next free byte for strings */
  shmt_arg args[SHMT_SCHEMA_MAX_ARGS];
  int n_args;
  shmt_arg returns[SHMT_SCHEMA_MAX_RETURNS];
  int n_returns;
} parser;

static const struct {
  const char* word;
  shmt_type type;
} type_words[] = {
    {"Tensor", SHMT_TYPE_TENSOR},
    {"Scalar", SHMT_TYPE_SCALAR},
    {"int", SHMT_TYPE_INT},
    {"SymInt", SHMT_TYPE_INT},
    {"float", SHMT_TYPE_FLOAT},
    {"bool", SHMT_TYPE_BOOL},
    {"str", SHMT_TYPE_STR},
    {"ScalarType", SHMT_TYPE_DTYPE},
    {"Layout", SHMT_TYPE_LAYOUT},
    {"Device", SHMT_TYPE_DEVICE},
    {"MemoryFormat", SHMT_TYPE_MEMORY_FORMAT},
    {"Generator", SHMT_TYPE_GENERATOR},
    {"Storage", SHMT_TYPE_STORAGE},
};

static SHMT_COLD shmt_status bad(const parser* s, const char* expected) {
  return shmt__fail(SHMT_E_VALUE, "schema '%s': expected %s at position %td, got '%.12s'", s->text,
                    expected, s->p - s->text, *s->p ? s->p : "the end");
}

static void skip_space(parser* s) {
  while (isspace((unsigned char)*s->p)) s->p++;
}

static bool accept(parser* s, const char* token) {
  skip_space(s);
  size_t n = strlen(token);
  if (strncmp(s->p, token, n) != 0) return false;
  s->p += n;
  return true;
}

static shmt_status expect(parser* s, const char* token) {
  if (accept(s, token)) return SHMT_OK;
  char what[16] = "'";
  strncat(what, token, 10);
  strcat(what, "'");
  return bad(s, what);
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static size_t word_length(const char* p) {
  size_t n = 0;
  if (isdigit((unsigned char)*p)) return 0;
  while (is_word(p[n])) n++;
  return n;
}

static const char* keep_text(parser* s, const char* from, size_t n) {
  char* at = s->pool;
  memcpy(at, from, n);
  at[n] = 0;
  s->pool += n + 1;
  return at;
}

static shmt_status read_word(parser* s, const char* what, const char** out) {
  skip_space(s);
  size_t n = word_length(s->p);
  if (!n) return bad(s, what);
  *out = keep_text(s, s->p, n);
  s->p += n;
  return SHMT_OK;
}

/* "(a)", "(a!)", "(a -> *)" after Tensor; also "(a0!)" to "(a63!)", which are kept as -1 to -64. */
static shmt_status read_alias(parser* s, shmt_arg* a) {
  if (*s->p != '(') return SHMT_OK;
  s->p++;
  skip_space(s);
  if (*s->p < 'a' || *s->p > 'z') return bad(s, "an alias letter");
  a->alias = *s->p++;
  if (a->alias == 'a' && isdigit((unsigned char)*s->p)) {
    char* end;
    long n = strtol(s->p, &end, 10);
    if (n >= SHMT_SCHEMA_MAX_ARGS) return bad(s, "an alias number below 64");
    a->alias = (signed char)(-1 - n);
    s->p = end;
  }
  a->flags |= accept(s, "!") ? SHMT_ARG_WRITE : SHMT_ARG_ALIAS;
  if (accept(s, "->")) SHMT_TRY(expect(s, "*"));
  return expect(s, ")");
}

static shmt_status read_list(parser* s, shmt_arg* a) {
  if (*s->p != '[') return SHMT_OK;
  s->p++;
  bool optional = (a->flags & SHMT_ARG_OPTIONAL) != 0;
  if (isdigit((unsigned char)*s->p)) {
    char* end;
    long n = strtol(s->p, &end, 10);
    if (n < 1 || n > SHMT_MAX_DIMS) return bad(s, "a list size from 1 to 64");
    a->list_size = (int32_t)n;
    s->p = end;
  }
  SHMT_TRY(expect(s, "]"));
  switch (a->type) {
    case SHMT_TYPE_TENSOR:
      a->type = SHMT_TYPE_TENSORS;
      if (optional) a->flags |= SHMT_ARG_ELEM_OPTIONAL;
      break;
    case SHMT_TYPE_INT:
      a->type = SHMT_TYPE_INTS;
      break;
    case SHMT_TYPE_FLOAT:
      a->type = SHMT_TYPE_FLOATS;
      break;
    default:
      return bad(s, "no list (only Tensor, int and float have lists)");
  }
  if (optional && a->type != SHMT_TYPE_TENSORS) return bad(s, "a list without optional elements");
  a->flags &= ~(uint32_t)SHMT_ARG_OPTIONAL;
  return SHMT_OK;
}

static shmt_status read_type(parser* s, shmt_arg* a) {
  skip_space(s);
  size_t n = word_length(s->p);
  size_t i, n_types = sizeof type_words / sizeof *type_words;
  for (i = 0; i < n_types; i++)
    if (strlen(type_words[i].word) == n && strncmp(type_words[i].word, s->p, n) == 0) break;
  if (i == n_types)
    return bad(s, "a type (Tensor, Scalar, int, float, bool, str, ScalarType, ...)");
  a->type = type_words[i].type;
  s->p += n;
  if (a->type == SHMT_TYPE_TENSOR) SHMT_TRY(read_alias(s, a));
  if (*s->p == '?') {
    s->p++;
    a->flags |= SHMT_ARG_OPTIONAL;
  }
  SHMT_TRY(read_list(s, a));
  if (*s->p == '(' && a->type == SHMT_TYPE_TENSORS) SHMT_TRY(read_alias(s, a));
  if (*s->p == '?') {
    s->p++;
    a->flags |= SHMT_ARG_OPTIONAL;
  }
  return SHMT_OK;
}

/* The text of a default up to the ',' or ')' that ends the argument; brackets and quotes nest. */
static shmt_status read_default(parser* s, shmt_arg* a) {
  skip_space(s);
  const char* from = s->p;
  int level = 0;
  while (*s->p && (level > 0 || (*s->p != ',' && *s->p != ')'))) {
    if (*s->p == '[' || *s->p == '(') level++;
    if (*s->p == ']' || *s->p == ')') level--;
    if (*s->p == '"' || *s->p == '\'') {
      const char quote = *s->p++;
      while (*s->p && *s->p != quote) s->p++;
      if (!*s->p) return bad(s, "the end of the string");
    }
    s->p++;
  }
  size_t n = (size_t)(s->p - from);
  while (n && isspace((unsigned char)from[n - 1])) n--;
  if (!n) return bad(s, "a default");
  a->default_text = keep_text(s, from, n);
  a->flags |= SHMT_ARG_HAS_DEFAULT;
  return SHMT_OK;
}

static shmt_status read_args(parser* s) {
  bool keyword_only = false;
  SHMT_TRY(expect(s, "("));
  if (accept(s, ")")) return SHMT_OK;
  do {
    skip_space(s);
    if (*s->p == '*') {
      if (keyword_only) return bad(s, "one '*' only");
      s->p++;
      keyword_only = true;
      continue;
    }
    if (s->n_args == SHMT_SCHEMA_MAX_ARGS) return bad(s, "at most 64 arguments");
    shmt_arg* a = &s->args[s->n_args];
    SHMT_TRY(read_type(s, a));
    SHMT_TRY(read_word(s, "an argument name", &a->name));
    for (int i = 0; i < s->n_args; i++)
      if (strcmp(s->args[i].name, a->name) == 0)
        return bad(s, "another argument name (this one is taken)");
    if (accept(s, "=")) SHMT_TRY(read_default(s, a));
    if (keyword_only) {
      a->flags |= SHMT_ARG_KEYWORD_ONLY;
      if (a->flags & SHMT_ARG_WRITE) a->flags |= SHMT_ARG_OUT;
    } else if (s->n_args && (s->args[s->n_args - 1].flags & SHMT_ARG_HAS_DEFAULT) &&
               !(a->flags & SHMT_ARG_HAS_DEFAULT)) {
      return bad(s, "a default (the argument before has one)");
    }
    s->n_args++;
  } while (accept(s, ","));
  return expect(s, ")");
}

static shmt_status read_returns(parser* s) {
  SHMT_TRY(expect(s, "->"));
  bool list = accept(s, "(");
  if (list && accept(s, ")")) return SHMT_OK;
  do {
    if (s->n_returns == SHMT_SCHEMA_MAX_RETURNS) return bad(s, "at most 16 results");
    shmt_arg* a = &s->returns[s->n_returns];
    SHMT_TRY(read_type(s, a));
    skip_space(s);
    a->name = "";
    if (word_length(s->p)) SHMT_TRY(read_word(s, "a result name", &a->name));
    s->n_returns++;
  } while (list && accept(s, ","));
  if (list) SHMT_TRY(expect(s, ")"));
  skip_space(s);
  return *s->p ? bad(s, "the end") : SHMT_OK;
}

static shmt_status read_name(parser* s, shmt_schema* out) {
  skip_space(s);
  const char* from = s->p;
  size_t n = word_length(s->p);
  if (!n) return bad(s, "an operator name");
  s->p += n;
  if (strncmp(s->p, "::", 2) == 0) {
    s->p += 2;
    n = word_length(s->p);
    if (!n) return bad(s, "a name after '::'");
    s->p += n;
  }
  out->name = keep_text(s, from, (size_t)(s->p - from));
  out->overload = "";
  if (*s->p == '.') {
    s->p++;
    SHMT_TRY(read_word(s, "an overload name", &out->overload));
  }
  return SHMT_OK;
}

shmt_status shmt__schema_parse(const char* text, shmt_schema** out) {
  /* Kept strings are disjoint pieces of the text, each with a terminator of its own; no piece is
   * empty. */
  size_t len = strlen(text), strings = 3 * (len + 1);
  SHMT_REQUIRE(len < 16384, SHMT_E_VALUE, "schema: %zu characters, at most 16383 are allowed", len);
  shmt_schema* schema =
      calloc(1, sizeof *schema + (SHMT_SCHEMA_MAX_ARGS + SHMT_SCHEMA_MAX_RETURNS) * sizeof(shmt_arg) + strings);
  parser* s = calloc(1, sizeof *s);
  if (!schema || !s) {
    free(schema);
    free(s);
    SHMT_FAIL(SHMT_E_NOMEM, "schema: out of memory for '%.100s'", text);
  }
  shmt_arg* args = (shmt_arg*)(schema + 1);
  s->text = s->p = text;
  s->pool = (char*)(args + SHMT_SCHEMA_MAX_ARGS + SHMT_SCHEMA_MAX_RETURNS);
  schema->text = keep_text(s, text, len);
  shmt_status status = read_name(s, schema);
  if (status == SHMT_OK) status = read_args(s);
  if (status == SHMT_OK) status = read_returns(s);
  if (status == SHMT_OK) {
    memcpy(args, s->args, (size_t)s->n_args * sizeof *args);
    memcpy(args + SHMT_SCHEMA_MAX_ARGS, s->returns, (size_t)s->n_returns * sizeof *args);
    schema->args = args;
    schema->returns = args + SHMT_SCHEMA_MAX_ARGS;
    schema->n_args = (uint16_t)s->n_args;
    schema->n_returns = (uint16_t)s->n_returns;
    *out = schema;
  } else {
    free(schema);
  }
  free(s);
  return status;
}

void shmt__schema_free(shmt_schema* schema) { free(schema); }
