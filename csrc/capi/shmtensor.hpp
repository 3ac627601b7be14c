// shmtensor.hpp -- shmtensor for C++17: handles that close themselves, exceptions, views.
//
// Everything is in the header, over shmtensor.h, whose comments say what the functions do. A failure throws
// shmtensor::Error, whose status() is that of C; a time that has passed is shmtensor::Timeout. Objects are moved, not
// copied. A timeout is seconds; none waits for ever.
#ifndef SHMTENSOR_HPP
#define SHMTENSOR_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "shmtensor.h"

namespace shmtensor {

inline constexpr double forever = -1.0;

class Error : public std::runtime_error {
 public:
  Error(shmtensor_status status, const std::string& text) : std::runtime_error(text), status_(status) {}
  shmtensor_status status() const noexcept { return status_; }

 private:
  shmtensor_status status_;
};

// The time has passed: SHMTENSOR_E_TIMEOUT, SHMTENSOR_E_EMPTY, SHMTENSOR_E_FULL.
class Timeout : public Error {
 public:
  using Error::Error;
};

inline void check(shmtensor_status status) {
  if (status == SHMTENSOR_OK) return;
  if (status == SHMTENSOR_E_TIMEOUT || status == SHMTENSOR_E_EMPTY || status == SHMTENSOR_E_FULL)
    throw Timeout(status, shmtensor_message());
  throw Error(status, shmtensor_message());
}

// A name, a key or a message as C takes it. Throws for one with a zero inside, which would cut it.
inline const char* text_of(const std::string& text) {
  if (text.find('\0') != std::string::npos)
    throw Error(SHMTENSOR_E_VALUE, "a text of " + std::to_string(text.size()) + " bytes has a zero at byte " +
                                       std::to_string(text.find('\0')));
  return text.c_str();
}

// Throws unless the library knows what this header knows.
inline void check_library() {
  if (shmtensor_abi_version() < SHMTENSOR_ABI_VERSION)
    throw Error(SHMTENSOR_E_OTHER, "libshmtensor " + std::string(shmtensor_version()) + " is older than its header");
}

// --- tensors ---

// Elements that lie one behind the other, as std::span has them.
template <typename T>
class View {
 public:
  View(T* data, std::size_t size) noexcept : data_(data), size_(size) {}
  T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T* begin() const noexcept { return data_; }
  T* end() const noexcept { return data_ + size_; }
  T& operator[](std::size_t i) const noexcept { return data_[i]; }

 private:
  T* data_;
  std::size_t size_;
};

// The dtype of a type of C++. std::uint8_t is uint8, bool is bool.
template <typename T>
DLDataType dtype_of() {
  using U = std::remove_cv_t<T>;
  static_assert(std::is_arithmetic_v<U>, "a number, or bool");
  const int bits = static_cast<int>(sizeof(U) * 8);
  if constexpr (std::is_same_v<U, bool>) return shmtensor_dtype(kDLBool, 8);
  if constexpr (std::is_floating_point_v<U>) return shmtensor_dtype(kDLFloat, bits);
  return shmtensor_dtype(std::is_unsigned_v<U> ? kDLUInt : kDLInt, bits);
}

// A tensor of DLPack, whose deleter is called at the end.
class Tensor {
 public:
  explicit Tensor(DLManagedTensorVersioned* managed = nullptr) noexcept : managed_(managed) {}
  Tensor(Tensor&& other) noexcept : managed_(other.release()) {}
  Tensor& operator=(Tensor&& other) noexcept {
    if (this != &other) {
      reset();
      managed_ = other.release();
    }
    return *this;
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor() { reset(); }

  // Throws when it was moved from, as do all that look at it.
  const DLTensor& dl() const {
    if (managed_ == nullptr) throw Error(SHMTENSOR_E_VALUE, "there is no tensor here: it was moved from");
    return managed_->dl_tensor;
  }
  DLManagedTensorVersioned* get() const noexcept { return managed_; }
  // Hand it on: the deleter is the caller's to call.
  DLManagedTensorVersioned* release() noexcept { return std::exchange(managed_, nullptr); }
  int ndim() const { return dl().ndim; }
  std::int64_t size(int dim) const { return dl().shape[dim]; }
  std::vector<std::int64_t> shape() const { return {dl().shape, dl().shape + dl().ndim}; }
  bool is_read_only() const {
    (void)dl();
    return (managed_->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
  }
  std::size_t numel() const {
    std::size_t n = 1;
    for (int i = 0; i < ndim(); i++) n *= static_cast<std::size_t>(size(i));
    return n;
  }
  bool is_contiguous() const {
    if (numel() == 0) return true;
    std::int64_t dense = 1;
    for (int i = ndim() - 1; i >= 0; i--) {
      if (dl().strides != nullptr && size(i) > 1 && dl().strides[i] != dense) return false;
      dense *= size(i);
    }
    return true;
  }
  // Its elements. A tensor that is read-only needs View<const T>. Throws for another dtype, and for one that is not
  // contiguous.
  template <typename T>
  View<T> view() const {
    const DLDataType wanted = dtype_of<T>();
    const DLDataType has = dl().dtype;
    if (has.code != wanted.code || has.bits != wanted.bits || has.lanes != 1)
      throw Error(SHMTENSOR_E_TYPE, "view(): the tensor has dtype code " + std::to_string(has.code) + " with " +
                                        std::to_string(has.bits) + " bits");
    if (!std::is_const_v<T> && is_read_only()) throw Error(SHMTENSOR_E_TYPE, "view(): the tensor is read-only");
    if (!is_contiguous()) throw Error(SHMTENSOR_E_VALUE, "view(): the tensor is not contiguous");
    char* data = static_cast<char*>(dl().data);
    return View<T>(reinterpret_cast<T*>(data == nullptr ? nullptr : data + dl().byte_offset), numel());
  }

 private:
  void reset() noexcept {
    if (managed_ != nullptr && managed_->deleter != nullptr) managed_->deleter(managed_);
    managed_ = nullptr;
  }
  DLManagedTensorVersioned* managed_;
};

// --- values ---

// A part of a value, which is borrowed from it.
class ValueRef {
 public:
  explicit ValueRef(const shmtensor_value* value = nullptr) noexcept : value_(value) {}
  const shmtensor_value* get() const noexcept { return value_; }
  int kind() const { return ask<int>(shmtensor_value_kind); }
  bool is_none() const { return kind() == SHMTENSOR_NONE; }
  bool as_bool() const { return ask<int>(shmtensor_value_get_bool) != 0; }
  std::int64_t as_int() const { return ask<std::int64_t>(shmtensor_value_get_int); }
  double as_float() const { return ask<double>(shmtensor_value_get_float); }
  std::string_view as_text() const {
    const char* text = nullptr;
    std::size_t n = 0;
    check(shmtensor_value_get_text(value_, &text, &n));
    return {text, n};
  }
  View<const unsigned char> as_bytes() const {
    const void* data = nullptr;
    std::size_t n = 0;
    check(shmtensor_value_get_bytes(value_, &data, &n));
    return {static_cast<const unsigned char*>(data), n};
  }
  Tensor as_tensor() const { return Tensor(ask<DLManagedTensorVersioned*>(shmtensor_value_get_tensor)); }
  std::size_t size() const { return ask<std::size_t>(shmtensor_value_length); }
  ValueRef operator[](std::size_t i) const {
    const shmtensor_value* item = nullptr;
    check(shmtensor_value_item(value_, i, &item));
    return ValueRef(item);
  }
  // The item of a key; throws Error with SHMTENSOR_E_KEY.
  ValueRef at(const std::string& key) const {
    const shmtensor_value* item = nullptr;
    check(shmtensor_value_find(value_, text_of(key), &item));
    return ValueRef(item);
  }
  // Key and item.
  std::pair<ValueRef, ValueRef> entry(std::size_t i) const {
    const shmtensor_value *key = nullptr, *item = nullptr;
    check(shmtensor_value_entry(value_, i, &key, &item));
    return {ValueRef(key), ValueRef(item)};
  }

 protected:
  template <typename R>
  R ask(shmtensor_status (*function)(const shmtensor_value*, R*)) const {
    R result{};
    check(function(value_, &result));
    return result;
  }
  const shmtensor_value* value_;
};

// A value that is this program's.
class Value : public ValueRef {
 public:
  explicit Value(shmtensor_value* value = nullptr) noexcept : ValueRef(value) {}
  Value(Value&& other) noexcept : ValueRef(other.release()) {}
  Value& operator=(Value&& other) noexcept {
    if (this != &other) {
      shmtensor_value_free(own());
      value_ = other.release();
    }
    return *this;
  }
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;
  ~Value() { shmtensor_value_free(own()); }
  shmtensor_value* release() noexcept {
    shmtensor_value* value = own();
    value_ = nullptr;
    return value;
  }

  static Value none() { return make(shmtensor_none); }
  static Value list() { return make(shmtensor_list); }
  static Value tuple() { return make(shmtensor_tuple); }
  static Value dict() { return make(shmtensor_dict); }
  static Value of(bool value) { return make(shmtensor_bool, value ? 1 : 0); }
  static Value of(double value) { return make(shmtensor_float, value); }
  template <typename T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  static Value of(T value) {  // throws above 64 bits with a sign
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (std::is_unsigned_v<T> && static_cast<std::uint64_t>(value) > most)
      throw Error(SHMTENSOR_E_VALUE, "of(): " + std::to_string(value) + " is above 2**63 - 1");
    return make(shmtensor_int, static_cast<std::int64_t>(value));
  }
  static Value of(std::string_view text) { return make(shmtensor_text, text.data(), text.size()); }
  static Value of(const char* text) { return make(shmtensor_text, text, SIZE_MAX); }
  static Value of(Tensor&& tensor) {
    Value made = make(shmtensor_tensor, tensor.get());
    tensor.release();
    return made;
  }
  static Value bytes(const void* data, std::size_t n) { return make(shmtensor_bytes, data, n); }

  Value& append(Value item) {
    check(shmtensor_value_append(own(), const_cast<shmtensor_value*>(item.get())));
    item.release();
    return *this;
  }
  Value& set(const std::string& key, Value item) {
    check(shmtensor_value_set_text(own(), text_of(key), const_cast<shmtensor_value*>(item.get())));
    item.release();
    return *this;
  }

 private:
  shmtensor_value* own() const noexcept { return const_cast<shmtensor_value*>(value_); }
  template <typename... Formal, typename... Actual>
  static Value make(shmtensor_status (*function)(Formal...), Actual... arguments) {
    shmtensor_value* made = nullptr;
    check(function(arguments..., &made));
    return Value(made);
  }
};

// --- handles ---

// A handle of C that is closed at the end.
template <typename T, shmtensor_status (*close_function)(T*)>
class Handle {
 public:
  explicit Handle(T* handle = nullptr) noexcept : handle_(handle) {}
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      close();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { close(); }
  T* get() const noexcept { return handle_; }
  // Goes on until the handle is gone, whatever signals come.
  void close() noexcept {
    if (handle_ == nullptr) return;
    while (close_function(handle_) == SHMTENSOR_E_INTERRUPTED) {
    }
    handle_ = nullptr;
  }

 protected:
  T* handle_;
};

class Delivery : public Handle<shmtensor_delivery, shmtensor_delivery_release> {
 public:
  Delivery(Value value, shmtensor_delivery* delivery, std::uint32_t count) noexcept
      : Handle(delivery), value(std::move(value)), count(count) {}
  // The work is done. Without it the message goes back to its queue. When a signal ends the call, nothing has happened:
  // call again.
  void acknowledge() {
    const shmtensor_status status = shmtensor_delivery_acknowledge(get());
    if (status != SHMTENSOR_E_INTERRUPTED) handle_ = nullptr;
    check(status);
  }
  Value value;
  std::uint32_t count;
};

class Queue : public Handle<shmtensor_queue, shmtensor_queue_close> {
 public:
  using Handle::Handle;
  void put(const ValueRef& value, double timeout = forever) { check(shmtensor_queue_put(get(), value.get(), timeout)); }
  Value get_value(double timeout = forever) {
    shmtensor_value* value = nullptr;
    check(shmtensor_queue_get(get(), timeout, &value));
    return Value(value);
  }
  Delivery get_delivery(double timeout = forever) {
    shmtensor_value* value = nullptr;
    shmtensor_delivery* delivery = nullptr;
    std::uint32_t count = 0;
    check(shmtensor_queue_get_delivery(get(), timeout, &value, &delivery, &count));
    return Delivery(Value(value), delivery, count);
  }
  std::uint32_t size() const {
    std::uint32_t n = 0;
    check(shmtensor_queue_length(get(), &n));
    return n;
  }
  int fileno() const {
    int fd = -1;
    check(shmtensor_queue_fileno(get(), &fd));
    return fd;
  }
};

class Loan : public Handle<shmtensor_loan, shmtensor_loan_close> {
 public:
  using Handle::Handle;
  template <typename T>
  View<T> view() const {
    void* data = nullptr;
    std::size_t nbytes = 0;
    check(shmtensor_loan_data(get(), &data, &nbytes));
    if (nbytes % sizeof(T) != 0)
      throw Error(SHMTENSOR_E_TYPE, "view(): the loan has " + std::to_string(nbytes) + " bytes, an element " +
                                        std::to_string(sizeof(T)));
    return View<T>(static_cast<T*>(data), nbytes / sizeof(T));
  }
  void publish(double timeout = forever) { check(shmtensor_loan_publish(get(), timeout)); }
};

class Subscription : public Handle<shmtensor_subscription, shmtensor_subscription_close> {
 public:
  using Handle::Handle;
  Value get_value(double timeout = forever) {
    shmtensor_value* value = nullptr;
    check(shmtensor_subscription_get(get(), timeout, &value));
    return Value(value);
  }
  Value latest(double timeout = forever) {
    shmtensor_value* value = nullptr;
    check(shmtensor_subscription_latest(get(), timeout, &value));
    return Value(value);
  }
  std::uint64_t lost() const {
    std::uint64_t n = 0;
    check(shmtensor_subscription_lost(get(), &n));
    return n;
  }
  int fileno() const {
    int fd = -1;
    check(shmtensor_subscription_fileno(get(), &fd));
    return fd;
  }
};

class Topic : public Handle<shmtensor_topic, shmtensor_topic_close> {
 public:
  using Handle::Handle;
  void publish(const ValueRef& value, double timeout = forever) {
    check(shmtensor_topic_publish(get(), value.get(), timeout));
  }
  template <typename T>
  // timeout: to wait for room where a limit of the service is reached.
  Loan loan(std::initializer_list<std::int64_t> shape, double timeout = 0) {
    shmtensor_loan* loan = nullptr;
    const int ndim = static_cast<int>(shape.size());
    check(shmtensor_topic_loan_within(get(), dtype_of<T>(), ndim, shape.begin(), timeout, &loan));
    return Loan(loan);
  }
  Subscription subscribe(int mode = SHMTENSOR_READ_ONLY) {
    shmtensor_subscription_options options{};
    options.size = sizeof options;
    options.mode = mode;
    shmtensor_subscription* subscription = nullptr;
    check(shmtensor_topic_subscribe(get(), &options, &subscription));
    return Subscription(subscription);
  }
  Value latest(int mode = SHMTENSOR_READ_ONLY) {
    shmtensor_value* value = nullptr;
    check(shmtensor_topic_latest(get(), mode, &value));
    return Value(value);
  }
};

// A call under way. One whose reply nobody has taken is cancelled at the end.
class Call : public Handle<shmtensor_call, shmtensor_call_close> {
 public:
  using Handle::Handle;
  // The reply, once; throws Timeout, after which the call goes on.
  Value wait(double timeout = forever) {
    shmtensor_value* reply = nullptr;
    check(shmtensor_call_wait(get(), timeout, &reply));
    return Value(reply);
  }
  // Whether wait() would return at once.
  bool is_done() const {
    int done = 0;
    check(shmtensor_call_is_done(get(), &done));
    return done != 0;
  }
  void cancel() { check(shmtensor_call_cancel(get())); }
};

class Client : public Handle<shmtensor_client, shmtensor_client_close> {
 public:
  using Handle::Handle;
  // Send a request without waiting for its reply; timeout: for room in the servers' queue.
  Call submit(const ValueRef& request, double timeout = forever) {
    shmtensor_call* call = nullptr;
    check(shmtensor_client_submit(get(), request.get(), timeout, &call));
    return Call(call);
  }
  Value call(const ValueRef& request, double timeout = forever) {
    shmtensor_value* reply = nullptr;
    check(shmtensor_client_call(get(), request.get(), timeout, &reply));
    return Value(reply);
  }
};

// A request without an answer is answered with an error at the end.
class Request : public Handle<shmtensor_request, shmtensor_request_close> {
 public:
  Request(Value value, shmtensor_request* request) noexcept : Handle(request), value(std::move(value)) {}
  // Whether the client still waited.
  bool reply(const ValueRef& answer) {
    int wanted = 0;
    check(shmtensor_request_reply(get(), answer.get(), &wanted));
    return wanted != 0;
  }
  bool fail(const std::string& text) {
    int wanted = 0;
    check(shmtensor_request_fail(get(), text_of(text), &wanted));
    return wanted != 0;
  }
  bool is_wanted() const {
    int wanted = 0;
    check(shmtensor_request_is_wanted(get(), &wanted));
    return wanted != 0;
  }
  Value value;
};

class Server : public Handle<shmtensor_server, shmtensor_server_close> {
 public:
  using Handle::Handle;
  Request take(double timeout = forever) {
    shmtensor_value* value = nullptr;
    shmtensor_request* request = nullptr;
    check(shmtensor_server_take(get(), timeout, &value, &request));
    return Request(Value(value), request);
  }
  int fileno() const {
    int fd = -1;
    check(shmtensor_server_fileno(get(), &fd));
    return fd;
  }
};

class Event : public Handle<shmtensor_event, shmtensor_event_close> {
 public:
  using Handle::Handle;
  void set() { check(shmtensor_event_set(get())); }
  void clear() { check(shmtensor_event_clear(get())); }
  bool is_set() const {
    int is = 0;
    check(shmtensor_event_is_set(get(), &is));
    return is != 0;
  }
  void pulse(std::uint64_t id = 0) { check(shmtensor_event_pulse(get(), id)); }
  void wait(double timeout = forever) { check(shmtensor_event_wait(get(), timeout)); }
  std::uint64_t wait_pulse(double timeout = forever) {
    std::uint64_t id = 0;
    check(shmtensor_event_wait_pulse(get(), timeout, &id));
    return id;
  }
  int fileno() const {
    int fd = -1;
    check(shmtensor_event_fileno(get(), &fd));
    return fd;
  }
};

// For std::lock_guard, with one permit a mutex.
class Lock : public Handle<shmtensor_lock, shmtensor_lock_close> {
 public:
  using Handle::Handle;
  void lock() { check(shmtensor_lock_acquire(get(), forever)); }
  bool try_lock() {
    const shmtensor_status status = shmtensor_lock_acquire(get(), 0);
    if (status == SHMTENSOR_E_TIMEOUT) return false;
    check(status);
    return true;
  }
  void unlock() { check(shmtensor_lock_release(get())); }
};

class Barrier : public Handle<shmtensor_barrier, shmtensor_barrier_close> {
 public:
  using Handle::Handle;
  // Whether this was the last one to arrive.
  bool wait(double timeout = forever) {
    int is_last = 0;
    check(shmtensor_barrier_wait(get(), timeout, &is_last));
    return is_last != 0;
  }
  std::uint32_t n_waiting() const {
    std::uint32_t n = 0;
    check(shmtensor_barrier_n_waiting(get(), &n));
    return n;
  }
};

// Something to wait for: a queue, a subscription, an event, a server, a call, or a descriptor.
class Waitable {
 public:
  Waitable(const Queue& queue) noexcept : item_(of(queue.get(), -1)) {}
  Waitable(const Subscription& subscription) noexcept : item_(of(subscription.get(), -1)) {}
  Waitable(const Event& event) noexcept : item_(of(event.get(), -1)) {}
  Waitable(const Server& server) noexcept : item_(of(server.get(), -1)) {}
  Waitable(const Call& call) noexcept : item_(of(call.get(), -1)) {}
  Waitable(int fd) noexcept : item_(of(nullptr, fd)) {}
  const shmtensor_wait_item& item() const noexcept { return item_; }

 private:
  static shmtensor_wait_item of(const void* handle, int fd) noexcept {
    shmtensor_wait_item item{};
    item.size = sizeof item;
    item.handle = handle;
    item.fd = fd;
    return item;
  }
  shmtensor_wait_item item_;
};

// Wait until one of the things is ready. Returns the positions of those that are; throws Timeout.
inline std::vector<std::size_t> wait_any(std::initializer_list<Waitable> things, double timeout = forever) {
  std::vector<shmtensor_wait_item> items;
  for (const Waitable& thing : things) items.push_back(thing.item());
  check(shmtensor_wait_any(items.data(), items.size(), timeout, nullptr));
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < items.size(); i++)
    if (items[i].is_ready != 0) ready.push_back(i);
  return ready;
}

class Service : public Handle<shmtensor_service, shmtensor_service_close> {
 public:
  // No name: the default service.
  explicit Service(const char* name = nullptr, bool start = false) : Handle(open(name, start)) {}
  // The size of the options is set here.
  explicit Service(const shmtensor_service_options& options) : Handle(open(options)) {}

  template <typename T>
  Tensor empty(std::initializer_list<std::int64_t> shape, double timeout = 0) {
    DLManagedTensorVersioned* tensor = nullptr;
    const int ndim = static_cast<int>(shape.size());
    check(shmtensor_empty_within(get(), dtype_of<T>(), ndim, shape.begin(), timeout, &tensor));
    return Tensor(tensor);
  }
  std::uint64_t publish(const std::string& name, const ValueRef& value, bool persist = false) {
    shmtensor_publish_options options{};
    options.size = sizeof options;
    options.persist = persist;
    std::uint64_t version = 0;
    check(shmtensor_publish(get(), text_of(name), value.get(), &options, &version));
    return version;
  }
  void unpublish(const std::string& name) { check(shmtensor_unpublish(get(), text_of(name))); }
  Value attach(const std::string& name, int mode = SHMTENSOR_READ_ONLY, std::uint64_t* version = nullptr) {
    shmtensor_value* value = nullptr;
    check(shmtensor_attach(get(), text_of(name), mode, &value, version));
    return Value(value);
  }
  std::uint64_t wait_newer(const std::string& name, std::uint64_t version, double timeout = forever) {
    std::uint64_t newer = 0;
    check(shmtensor_wait_newer(get(), text_of(name), version, timeout, &newer));
    return newer;
  }
  std::vector<std::string> names() {
    std::vector<std::string> found;
    shmtensor_name entry{};
    entry.size = sizeof entry;
    for (std::uint32_t position = 0;;) {
      const shmtensor_status status = shmtensor_next_name(get(), &position, &entry);
      if (status == SHMTENSOR_E_KEY) return found;
      check(status);
      found.emplace_back(entry.name);
    }
  }
  // Options may be left out; their size is set here.
  Queue queue(const std::string& name, shmtensor_queue_options options = {}) {
    return Queue(opened<shmtensor_queue>(shmtensor_queue_open, name, options));
  }
  Topic topic(const std::string& name, shmtensor_topic_options options = {}) {
    return Topic(opened<shmtensor_topic>(shmtensor_topic_open, name, options));
  }
  Server server(const std::string& name, shmtensor_server_options options = {}) {
    return Server(opened<shmtensor_server>(shmtensor_server_open, name, options));
  }
  Client client(const std::string& name) {
    shmtensor_client* client = nullptr;
    check(shmtensor_client_open(get(), text_of(name), &client));
    return Client(client);
  }
  Event event(const std::string& name, bool persist = false) {
    shmtensor_event* event = nullptr;
    check(shmtensor_event_open(get(), text_of(name), persist, &event));
    return Event(event);
  }
  Lock lock(const std::string& name, std::uint32_t permits = 1) {
    shmtensor_lock* lock = nullptr;
    check(shmtensor_lock_open(get(), text_of(name), permits, &lock));
    return Lock(lock);
  }
  Barrier barrier(const std::string& name, std::uint32_t parties) {
    shmtensor_barrier* barrier = nullptr;
    check(shmtensor_barrier_open(get(), text_of(name), parties, &barrier));
    return Barrier(barrier);
  }

 private:
  static shmtensor_service* open(shmtensor_service_options options) {
    check_library();
    options.size = sizeof options;
    shmtensor_service* service = nullptr;
    check(shmtensor_service_open(&options, &service));
    return service;
  }
  static shmtensor_service* open(const char* name, bool start) {
    shmtensor_service_options options{};
    options.name = name;
    options.start = start;
    return open(options);
  }
  template <typename T, typename Options>
  T* opened(shmtensor_status (*function)(shmtensor_service*, const char*, const Options*, T**),
            const std::string& name, Options options) {
    T* made = nullptr;
    options.size = sizeof options;
    check(function(get(), text_of(name), &options, &made));
    return made;
  }
};

}  // namespace shmtensor

#endif
