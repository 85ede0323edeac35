#include "common/fork_join.h"

#include <chrono>
#include <system_error>

namespace strata {
namespace {

constexpr uint32_t kStop = UINT32_MAX;
// How long a waiting thread spins before it sleeps: about the time of falling asleep and being
// woken.
constexpr std::chrono::microseconds kSpin(30);

// Returns whether `value` was seen to differ from `old` within kSpin.
bool Changes(const std::atomic<uint32_t>& value, uint32_t old) {
  const auto until = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (value.load(std::memory_order_acquire) != old) return true;
    }
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

}  // namespace

ForkJoin::ForkJoin(uint32_t helpers) {
  for (uint32_t i = 0; i < helpers; ++i) {
    try {
      threads_.emplace_back([this] { Help(); });
    } catch (const std::system_error&) {
      return;
    }
  }
}

ForkJoin::~ForkJoin() {
  untaken_.store(kStop);
  untaken_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool ForkJoin::DoOne() {
  uint32_t untaken = untaken_.load(std::memory_order_acquire);
  do {
    if (untaken == 0 || untaken == kStop) return false;
  } while (!untaken_.compare_exchange_weak(untaken, untaken - 1, std::memory_order_acq_rel));
  (*body_)(untaken - 1);
  if (undone_.fetch_sub(1, std::memory_order_acq_rel) == 1) undone_.notify_one();
  return true;
}

void ForkJoin::Help() {
  while (true) {
    while (DoOne()) {
    }
    if (untaken_.load() == kStop) return;
    if (!Changes(untaken_, 0)) untaken_.wait(0);
  }
}

void ForkJoin::Run(uint32_t parts, uint32_t helpers, absl::FunctionRef<void(uint32_t)> body) {
  if (threads_.empty() || helpers == 0 || parts < 2) {
    for (uint32_t part = 0; part < parts; ++part) body(part);
    return;
  }
  body_ = &body;
  undone_.store(parts, std::memory_order_relaxed);
  untaken_.store(parts, std::memory_order_release);
  for (uint32_t i = 0; i < helpers && i < threads_.size(); ++i) untaken_.notify_one();
  while (DoOne()) {
  }
  uint32_t undone = undone_.load(std::memory_order_acquire);
  while (undone != 0) {
    if (!Changes(undone_, undone)) undone_.wait(undone);
    undone = undone_.load(std::memory_order_acquire);
  }
}

}  // namespace strata
