// tests/capi/wrapper.cpp -- the wrapper of C++: each class once, and what it throws.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mutex>

#include "shmtensor.hpp"

using namespace shmtensor;

#define CHECK(condition)                                               \
  do {                                                                 \
    if (!(condition)) {                                                \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                    \
    }                                                                  \
  } while (0)

template <typename F>
shmtensor_status thrown(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    CHECK(error.what()[0] != '\0');
    return error.status();
  }
  return SHMTENSOR_OK;
}

// Stands before the library's own function: so many calls are ended by a signal first.
static int n_signals = 0;

static shmtensor_status unless_interrupted(const char* name, shmtensor_delivery* delivery) {
  if (n_signals > 0) {
    n_signals--;
    (void)shmtensor_none(nullptr);  // there is a text
    return SHMTENSOR_E_INTERRUPTED;
  }
  using Function = shmtensor_status (*)(shmtensor_delivery*);
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name))(delivery);
}

extern "C" shmtensor_status shmtensor_delivery_acknowledge(shmtensor_delivery* delivery) {
  return unless_interrupted("shmtensor_delivery_acknowledge", delivery);
}

extern "C" shmtensor_status shmtensor_delivery_release(shmtensor_delivery* delivery) {
  return unless_interrupted("shmtensor_delivery_release", delivery);
}

static void values(Service& service) {
  Tensor t = service.empty<float>({2, 3});
  for (float& x : t.view<float>()) x = 2;
  CHECK(thrown([&] { (void)t.view<double>(); }) == SHMTENSOR_E_TYPE);
  Value dict = Value::dict();
  dict.set("t", Value::of(std::move(t))).set("n", Value::of(3)).set("x", Value::of(0.5));
  dict.set("ok", Value::of(true)).set("text", Value::of("hello"));
  Value list = Value::list();
  list.append(Value::none()).append(Value::bytes("ab", 2));
  dict.set("list", std::move(list));
  const std::uint64_t version = service.publish("v", dict);
  std::uint64_t seen = 0;
  Value got = service.attach("v", SHMTENSOR_READ_ONLY, &seen);
  CHECK(seen == version);
  CHECK(got.at("n").as_int() == 3 && got.at("x").as_float() == 0.5 && got.at("ok").as_bool());
  CHECK(got.at("text").as_text() == "hello" && got.at("list").size() == 2 && got.at("list")[1].as_bytes()[1] == 'b');
  Tensor shown = got.at("t").as_tensor();
  CHECK(shown.is_read_only() && shown.numel() == 6 && shown.view<const float>()[5] == 2);
  CHECK(thrown([&] { (void)shown.view<float>(); }) == SHMTENSOR_E_TYPE);
  CHECK(thrown([&] { (void)got.at("none"); }) == SHMTENSOR_E_KEY);
  CHECK(service.names().size() == 1);
  service.unpublish("v");
  CHECK(thrown([&] { (void)service.attach("v"); }) == SHMTENSOR_E_KEY);
}

static void refusals(Service& service) {
  const std::string cut("a\0b", 3);
  Value dict = Value::dict();
  CHECK(thrown([&] { (void)service.queue(cut); }) == SHMTENSOR_E_VALUE);
  CHECK(thrown([&] { (void)service.publish(cut, dict); }) == SHMTENSOR_E_VALUE);
  CHECK(thrown([&] { (void)service.lock(cut); }) == SHMTENSOR_E_VALUE);
  CHECK(thrown([&] { dict.set(cut, Value::none()); }) == SHMTENSOR_E_VALUE && dict.size() == 0);
  CHECK(thrown([&] { (void)dict.at(cut); }) == SHMTENSOR_E_VALUE);
  CHECK(service.names().empty());
  const std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  CHECK(Value::of(most).as_int() == std::numeric_limits<std::int64_t>::max());
  CHECK(thrown([&] { (void)Value::of(most + 1); }) == SHMTENSOR_E_VALUE);
  CHECK(Value::of(std::int8_t{-1}).as_int() == -1 && Value::of(std::uint8_t{255}).as_int() == 255);
  CHECK(Value::of(std::string_view()).as_text().empty());
  CHECK(thrown([&] { (void)Value::of(static_cast<const char*>(nullptr)); }) == SHMTENSOR_E_VALUE);
  Tensor t = service.empty<float>({3});
  Tensor moved = std::move(t);
  CHECK(moved.numel() == 3);
  CHECK(thrown([&] { (void)t.view<float>(); }) == SHMTENSOR_E_VALUE);
  CHECK(thrown([&] { (void)t.shape(); }) == SHMTENSOR_E_VALUE);
  CHECK(thrown([&] { (void)t.is_read_only(); }) == SHMTENSOR_E_VALUE);
  Topic topic = service.topic("odd");
  Loan loan = topic.loan<std::uint8_t>({7});
  CHECK(loan.view<std::uint8_t>().size() == 7);
  CHECK(thrown([&] { (void)loan.view<float>(); }) == SHMTENSOR_E_TYPE);
}

static void empty_tensors(Service& service) {
  CHECK(service.empty<float>({2, 0}).view<float>().empty());
  CHECK(service.empty<float>({0, 3, 2}).is_contiguous());
  CHECK(service.empty<float>({}).view<float>().size() == 1);
}

static void options_without_their_size(const char* name) {
  shmtensor_service_options options{};
  options.name = name;
  Service same(options);
  CHECK(same.get() != nullptr && options.size == 0);
}

static void queues(Service& service) {
  Queue queue = service.queue("q", {0, 1, 0, 0, 0});
  queue.put(Value::of(7));
  bool was_late = false;
  try {
    queue.put(Value::of(8), 0);
  } catch (const Timeout&) {
    was_late = true;
  }
  CHECK(was_late && queue.size() == 1);
  { Delivery delivery = queue.get_delivery(); }  // goes back
  Delivery again = queue.get_delivery();
  CHECK(again.count == 2 && again.value.as_int() == 7);
  again.acknowledge();
  CHECK(thrown([&] { (void)queue.get_value(0); }) == SHMTENSOR_E_EMPTY);
}

static void interruptions(Service& service) {
  Queue queue = service.queue("interrupted");
  queue.put(Value::of(1));
  Delivery delivery = queue.get_delivery();
  n_signals = 1;
  CHECK(thrown([&] { delivery.acknowledge(); }) == SHMTENSOR_E_INTERRUPTED);
  delivery.acknowledge();
  CHECK(delivery.get() == nullptr && thrown([&] { delivery.acknowledge(); }) == SHMTENSOR_E_VALUE);
  queue.put(Value::of(2));
  n_signals = 2;
  { Delivery unsettled = queue.get_delivery(); }
  CHECK(n_signals == 0 && queue.get_delivery(0).count == 2);
}

static void topics(Service& service) {
  Topic topic = service.topic("t");
  Subscription subscription = topic.subscribe();
  Loan loan = topic.loan<std::uint8_t>({4, 5});
  for (std::uint8_t& pixel : loan.view<std::uint8_t>()) pixel = 9;
  loan.publish();
  CHECK(thrown([&] { loan.publish(); }) == SHMTENSOR_E_STATE);
  CHECK(subscription.get_value().as_tensor().view<const std::uint8_t>()[19] == 9);
  CHECK(subscription.lost() == 0);
}

static void calls(Service& service) {
  Server server = service.server("s");
  Client client = service.client("s");
  CHECK(thrown([&] { (void)client.call(Value::of(1), 0.01); }) == SHMTENSOR_E_TIMEOUT);
  CHECK(thrown([&] { (void)server.take(0); }) == SHMTENSOR_E_EMPTY);
  Call first = client.submit(Value::of(1)), second = client.submit(Value::of(2));
  CHECK(!first.is_done() && thrown([&] { (void)first.wait(0.01); }) == SHMTENSOR_E_TIMEOUT);
  CHECK(thrown([&] { (void)wait_any({first, second}, 0.01); }) == SHMTENSOR_E_TIMEOUT);
  first.cancel();
  CHECK(first.is_done() && thrown([&] { (void)first.wait(); }) == SHMTENSOR_E_STATE);
  Request request = server.take(60);
  Queue nothing = service.queue("nothing");
  CHECK(request.value.as_int() == 2 && request.reply(Value::of(4)));
  CHECK(wait_any({nothing, second}, 60) == std::vector<std::size_t>{1});
  CHECK(second.wait(60).as_int() == 4);
  { Call third = client.submit(Value::of(3)); } /* which cancels it */
  CHECK(thrown([&] { (void)server.take(0); }) == SHMTENSOR_E_EMPTY);
}

static void several(Service& service) {
  Queue queue = service.queue("any");
  Event event = service.event("e");
  Server server = service.server("s");
  Subscription subscription = service.topic("t").subscribe();
  CHECK(thrown([&] { (void)wait_any({queue, subscription, event, server}, 0.01); }) == SHMTENSOR_E_TIMEOUT);
  queue.put(Value::of(1));
  const std::vector<std::size_t> ready = wait_any({event, queue, event.fileno(), server.fileno(), queue.fileno()});
  CHECK(!ready.empty() && ready[0] == 1);
  CHECK(thrown([&] { (void)wait_any({Queue()}, 0); }) == SHMTENSOR_E_VALUE);
}

static void barriers(Service& service) {
  Barrier alone = service.barrier("alone", 1), two = service.barrier("two", 2);
  CHECK(alone.wait() && alone.n_waiting() == 0);
  CHECK(thrown([&] { (void)two.wait(0.01); }) == SHMTENSOR_E_TIMEOUT && two.n_waiting() == 0);
}

static void locks(Service& service) {
  Event event = service.event("e");
  event.set();
  event.wait();
  event.clear();
  CHECK(!event.is_set() && thrown([&] { event.wait(0.01); }) == SHMTENSOR_E_TIMEOUT);
  Lock lock = service.lock("l"), same = service.lock("l");
  {
    std::lock_guard<Lock> guard(lock);
    CHECK(!same.try_lock());
  }
  CHECK(same.try_lock());
  same.unlock();
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  Service service(argv[1], true);
  values(service);
  refusals(service);
  empty_tensors(service);
  options_without_their_size(argv[1]);
  queues(service);
  interruptions(service);
  topics(service);
  calls(service);
  locks(service);
  several(service);
  barriers(service);
  std::puts("done");
  return 0;
}
