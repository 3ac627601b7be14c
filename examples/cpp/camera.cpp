// camera.cpp -- a camera that publishes frames of 480 x 640 pixels for every program that wants them.
//
//     g++ -std=c++17 -O2 camera.cpp $(shmtensor config --cflags --libs) -o camera
//     ./camera                  frames for ever, 60 a second; with --frames N so many, with --service NAME elsewhere
//
// Each frame is written where viewers read it: a loan of the topic, which is published without a copy. A viewer that is
// slow misses frames, and one that is killed costs the camera nothing. Start viewer.py before or after.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "shmtensor.hpp"

namespace {

constexpr int kHeight = 480, kWidth = 640;

// What a driver would do: a picture with a stripe that moves by a pixel each frame.
void expose(shmtensor::View<std::uint8_t> pixels, long number) {
  std::memset(pixels.data(), 32, pixels.size());
  const int at = static_cast<int>(number % kWidth);
  for (int row = 0; row < kHeight; row++) std::memset(&pixels[3 * (row * kWidth + at)], 255, 3);
}

}  // namespace

int main(int argc, char** argv) {
  const char* name = nullptr;
  long frames = -1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--service") == 0) name = argv[i + 1];
    if (std::strcmp(argv[i], "--frames") == 0) frames = std::atol(argv[i + 1]);
  }
  try {
    shmtensor::Service service(name, true);
    shmtensor_topic_options options{};
    options.depth = 4;    // frames that wait for a viewer
    options.history = 1;  // a viewer that comes late sees the last one at once
    shmtensor::Topic topic = service.topic("frames", options);
    const auto start = std::chrono::steady_clock::now();
    for (long number = 0; frames < 0 || number < frames; number++) {
      shmtensor::Loan frame = topic.loan<std::uint8_t>({kHeight, kWidth, 3});
      expose(frame.view<std::uint8_t>(), number);
      frame.publish();
      std::this_thread::sleep_until(start + std::chrono::microseconds(1'000'000 / 60) * (number + 1));
    }
  } catch (const shmtensor::Error& error) {
    std::fprintf(stderr, "camera: %s\n", error.what());
    return 1;
  }
  return 0;
}
