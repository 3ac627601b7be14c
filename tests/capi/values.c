/* tests/capi/values.c -- trees of values: building and reading them, and what is refused. */
#include "check_public.h"

#include <math.h>

TEST(versions_and_statuses_have_names) {
  CHECK_EQ(shmtensor_abi_version(), SHMTENSOR_ABI_VERSION);
  CHECK(strchr(shmtensor_version(), '.') != NULL);
  CHECK_EQ(strcmp(shmtensor_status_name(SHMTENSOR_E_LOST), "SHMTENSOR_E_LOST"), 0);
  CHECK_EQ(strcmp(shmtensor_status_name(SHMTENSOR_E_OTHER), "SHMTENSOR_E_OTHER"), 0);
  CHECK_EQ(strcmp(shmtensor_status_name(17), "unknown"), 0);
  CHECK_EQ(strcmp(shmtensor_status_name(-1), "unknown"), 0);
}

TEST(scalars_keep_what_they_are_given) {
  shmtensor_value* v = NULL;
  int kind = -1, flag = -1;
  double real = 0;
  const char* text = NULL;
  const void* data = NULL;
  size_t n = 0;
  CHECK_OK(shmtensor_none(&v));
  CHECK_OK(shmtensor_value_kind(v, &kind));
  CHECK_EQ(kind, SHMTENSOR_NONE);
  shmtensor_value_free(v);
  CHECK_OK(shmtensor_bool(7, &v));
  CHECK_OK(shmtensor_value_get_bool(v, &flag));
  CHECK_EQ(flag, 1);
  shmtensor_value_free(v);
  CHECK_EQ(taken_integer(integer(INT64_MIN)), INT64_MIN);
  CHECK_OK(shmtensor_float(0.5, &v));
  CHECK_OK(shmtensor_value_get_float(v, &real));
  CHECK(real == 0.5);
  shmtensor_value_free(v);
  v = integer(3);
  CHECK_OK(shmtensor_value_get_float(v, &real));
  CHECK(real == 3.0);
  shmtensor_value_free(v);
  CHECK_OK(shmtensor_text("a\0b", 3, &v));
  CHECK_OK(shmtensor_value_get_text(v, &text, &n));
  CHECK(n == 3 && memcmp(text, "a\0b", 4) == 0);
  shmtensor_value_free(v);
  CHECK_OK(shmtensor_bytes(NULL, 0, &v));
  CHECK_OK(shmtensor_value_get_bytes(v, &data, &n));
  CHECK_EQ(n, 0);
  shmtensor_value_free(v);
  shmtensor_value_free(NULL);
}

TEST(texts_are_utf8) {
  static const char* const bad[] = {"\x80",     "\xc0\xaf",         "\xc1\xbf",         "\xe0\x9f\xbf", "\xed\xa0\x80",
                                    "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82", "\xff"};
  shmtensor_value* v = NULL;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    CHECK_FAILS(shmtensor_text(bad[i], SIZE_MAX, &v), SHMTENSOR_E_VALUE, "UTF-8");
  CHECK_OK(shmtensor_text("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", SIZE_MAX, &v));
  shmtensor_value_free(v);
}

TEST(containers_have_items_in_order) {
  shmtensor_value *dict = NULL, *list = NULL, *tuple = NULL;
  const shmtensor_value *key = NULL, *item = NULL;
  size_t n = 0;
  CHECK_OK(shmtensor_dict(&dict));
  CHECK_OK(shmtensor_list(&list));
  CHECK_OK(shmtensor_tuple(&tuple));
  CHECK_OK(shmtensor_value_append(list, integer(1)));
  CHECK_OK(shmtensor_value_append(list, integer(2)));
  CHECK_OK(shmtensor_value_append(tuple, list));
  CHECK_OK(shmtensor_value_set_text(dict, "t", tuple));
  CHECK_OK(shmtensor_value_set(dict, integer(5), integer(6)));
  CHECK_OK(shmtensor_value_set(dict, integer(5), integer(7)));
  CHECK_OK(shmtensor_value_length(dict, &n));
  CHECK_EQ(n, 2);
  CHECK_OK(shmtensor_value_entry(dict, 1, &key, &item));
  CHECK_EQ(integer_of(key), 5);
  CHECK_EQ(integer_of(item), 7);
  CHECK_OK(shmtensor_value_find(dict, "t", &item));
  CHECK_OK(shmtensor_value_item(item, 0, &item));
  CHECK_OK(shmtensor_value_item(item, 1, &item));
  CHECK_EQ(integer_of(item), 2);
  CHECK_FAILS(shmtensor_value_find(dict, "u", &item), SHMTENSOR_E_KEY, "\"u\"");
  CHECK_FAILS(shmtensor_value_entry(dict, 2, &key, &item), SHMTENSOR_E_VALUE, "of 2 entries");
  shmtensor_value_free(dict);
}

TEST(empty_texts_and_bytes_need_no_memory) {
  shmtensor_value* v = NULL;
  const char* text = NULL;
  const void* data = NULL;
  size_t n = 9;
  CHECK_OK(shmtensor_text(NULL, 0, &v));
  CHECK_OK(shmtensor_value_get_text(v, &text, &n));
  CHECK(n == 0 && text[0] == '\0');
  shmtensor_value_free(v);
  CHECK_OK(shmtensor_bytes(NULL, 0, &v));
  CHECK_OK(shmtensor_value_get_bytes(v, &data, &n));
  CHECK_EQ(n, 0);
  shmtensor_value_free(v);
}

TEST(what_makes_no_sense_is_refused_by_name) {
  shmtensor_value *list = NULL, *v = NULL;
  const shmtensor_value* item = NULL;
  int64_t number = 0;
  size_t n = 0;
  CHECK_OK(shmtensor_list(&list));
  CHECK_FAILS(shmtensor_int(1, NULL), SHMTENSOR_E_VALUE, "shmtensor_int(): out is NULL");
  CHECK_FAILS(shmtensor_text(NULL, 1, &v), SHMTENSOR_E_VALUE, "text is NULL");
  CHECK_FAILS(shmtensor_text(NULL, SIZE_MAX, &v), SHMTENSOR_E_VALUE, "text is NULL");
  CHECK_FAILS(shmtensor_bytes(NULL, 1, &v), SHMTENSOR_E_VALUE, "data is NULL");
  CHECK_FAILS(shmtensor_tensor(NULL, &v), SHMTENSOR_E_VALUE, "tensor is NULL");
  CHECK_FAILS(shmtensor_value_append(list, NULL), SHMTENSOR_E_VALUE, "item is NULL");
  CHECK_FAILS(shmtensor_value_append(NULL, list), SHMTENSOR_E_VALUE, "sequence is NULL");
  CHECK_FAILS(shmtensor_value_append(list, list), SHMTENSOR_E_VALUE, "nested");
  CHECK_FAILS(shmtensor_value_get_int(list, &number), SHMTENSOR_E_VALUE, "value is a list, expected an integer");
  CHECK_FAILS(shmtensor_value_length(NULL, &n), SHMTENSOR_E_VALUE, "value is NULL");
  CHECK_FAILS(shmtensor_value_item(list, 0, &item), SHMTENSOR_E_VALUE, "i is 0, of 0 items");
  CHECK_OK(shmtensor_dict(&v));
  CHECK_FAILS(shmtensor_value_set(v, list, list), SHMTENSOR_E_VALUE, "key is a list");
  CHECK_FAILS(shmtensor_value_append(v, list), SHMTENSOR_E_VALUE, "sequence is a dict");
  shmtensor_value_free(v);
  shmtensor_value_free(list);
}

TEST(depth_is_bounded) {
  shmtensor_value* inner = NULL;
  int depth = 0;
  CHECK_OK(shmtensor_list(&inner));
  for (;; depth++) {
    shmtensor_value* outer = NULL;
    CHECK_OK(shmtensor_list(&outer));
    const shmtensor_status status = shmtensor_value_append(outer, inner);
    if (status != SHMTENSOR_OK) {
      CHECK_EQ(status, SHMTENSOR_E_VALUE);
      shmtensor_value_free(outer);
      break;
    }
    inner = outer;
  }
  CHECK(depth >= 199 && depth <= 201);
  shmtensor_value_free(inner);
}

TEST(part_of_a_value_is_neither_changed_nor_given_away) {
  shmtensor_value *outer = NULL, *inner = NULL, *other = NULL, *number = integer(3);
  const shmtensor_value* item = NULL;
  CHECK_OK(shmtensor_list(&outer));
  CHECK_OK(shmtensor_list(&inner));
  CHECK_OK(shmtensor_dict(&other));
  CHECK_OK(shmtensor_value_append(inner, number));
  CHECK_OK(shmtensor_value_append(outer, inner));
  CHECK_FAILS(shmtensor_value_append(inner, outer), SHMTENSOR_E_VALUE, "sequence is a part of another value");
  CHECK_FAILS(shmtensor_value_append(outer, inner), SHMTENSOR_E_VALUE, "item is a part of another value");
  CHECK_FAILS(shmtensor_value_set_text(other, "x", inner), SHMTENSOR_E_VALUE, "item is a part of another value");
  CHECK_FAILS(shmtensor_value_set(other, number, outer), SHMTENSOR_E_VALUE, "key is a part of another value");
  shmtensor_value_free(inner);
  shmtensor_value_free(number);
  CHECK_OK(shmtensor_value_set_text(other, "x", outer));
  CHECK_FAILS(shmtensor_value_set_text(other, "x", outer), SHMTENSOR_E_VALUE, "item is a part of another value");
  CHECK_OK(shmtensor_value_find(other, "x", &item));
  CHECK_OK(shmtensor_value_item(item, 0, &item));
  CHECK_OK(shmtensor_value_item(item, 0, &item));
  CHECK_EQ(integer_of(item), 3);
  shmtensor_value_free(other);
}

/* --- tensors of other libraries --- */

static int n_deleted;
static void count_deleted(DLManagedTensorVersioned* m) {
  (void)m;
  n_deleted++;
}

static float elements[6] = {0, 1, 2, 3, 4, 5};

static DLManagedTensorVersioned foreign(int64_t* shape, int64_t* strides, int ndim) {
  return (DLManagedTensorVersioned){
      .version = {1, 0},
      .deleter = count_deleted,
      .dl_tensor = {.data = elements, .device = {kDLCPU, 0}, .ndim = ndim, .dtype = shmtensor_dtype(kDLFloat, 32),
                    .shape = shape, .strides = strides},
  };
}

TEST(tensor_of_another_library_is_kept_and_deleted_once) {
  int64_t shape[] = {2, 3};
  DLManagedTensorVersioned m = foreign(shape, NULL, 2), *out = NULL;
  shmtensor_value* v = NULL;
  CHECK_OK(shmtensor_tensor(&m, &v));
  CHECK_OK(shmtensor_value_get_tensor(v, &out));
  CHECK(out->dl_tensor.data == elements && out->dl_tensor.shape[1] == 3 && out->dl_tensor.strides[0] == 3);
  shmtensor_value_free(v);
  CHECK_EQ(n_deleted, 0);
  out->deleter(out);
  CHECK_EQ(n_deleted, 1);
}

TEST(tensors_that_make_no_sense_stay_their_owners) {
  int64_t shape[] = {2, 3}, negative[] = {-3, 1}, huge[] = {INT64_MAX, 3};
  shmtensor_value* v = NULL;
  DLManagedTensorVersioned m = foreign(shape, negative, 2);
  CHECK_FAILS(shmtensor_tensor(&m, &v), SHMTENSOR_E_VALUE, "stride 0");
  m = foreign(huge, NULL, 2);
  CHECK_FAILS(shmtensor_tensor(&m, &v), SHMTENSOR_E_VALUE, "too large");
  m = foreign(shape, NULL, 65);
  CHECK_FAILS(shmtensor_tensor(&m, &v), SHMTENSOR_E_VALUE, "ndim");
  m = foreign(NULL, NULL, 2);
  CHECK_FAILS(shmtensor_tensor(&m, &v), SHMTENSOR_E_VALUE, "shape");
  m = foreign(shape, NULL, 2);
  m.version.major = 2;
  CHECK_FAILS(shmtensor_tensor(&m, &v), SHMTENSOR_E_VALUE, "version 2");
  m = foreign(shape, NULL, 2);
  m.dl_tensor.data = NULL;
  CHECK_FAILS(shmtensor_tensor(&m, &v), SHMTENSOR_E_VALUE, "outside of memory");
  m = foreign(shape, NULL, 2);
  m.dl_tensor.device.device_type = kDLCUDA;
  CHECK_FAILS(shmtensor_tensor(&m, &v), SHMTENSOR_E_TYPE, "device");
  m = foreign(shape, NULL, 2);
  m.dl_tensor.dtype.lanes = 4;
  CHECK_FAILS(shmtensor_tensor(&m, &v), SHMTENSOR_E_TYPE, "lanes");
  CHECK_EQ(n_deleted, 0);
}

TEST(tensor_comes_back_as_its_holder_has_cut_it) {
  int64_t shape[] = {6};
  DLManagedTensorVersioned m = foreign(shape, NULL, 1), *cut = NULL, *back = NULL;
  shmtensor_value* v = NULL;
  CHECK_OK(shmtensor_tensor(&m, &v));
  CHECK_OK(shmtensor_value_get_tensor(v, &cut));
  shmtensor_value_free(v);
  cut->dl_tensor.shape[0] = 7;
  CHECK_FAILS(shmtensor_tensor(cut, &v), SHMTENSOR_E_VALUE, "was changed to lie 0 bytes");
  cut->dl_tensor.shape[0] = 2;
  cut->dl_tensor.byte_offset = 6;
  CHECK_FAILS(shmtensor_tensor(cut, &v), SHMTENSOR_E_VALUE, "was changed to lie 6 bytes");
  cut->dl_tensor.byte_offset = 8;
  cut->dl_tensor.data = elements + 1;
  CHECK_OK(shmtensor_tensor(cut, &v));
  CHECK_OK(shmtensor_value_get_tensor(v, &back));
  CHECK(back->dl_tensor.data == elements + 3 && back->dl_tensor.byte_offset == 0 && back->dl_tensor.shape[0] == 2);
  shmtensor_value_free(v);
  back->deleter(back);
}
