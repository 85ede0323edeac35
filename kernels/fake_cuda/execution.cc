#include "kernels/fake_cuda/execution.h"

#include <ucontext.h>

#include <algorithm>
#include <atomic>

namespace fake_cuda {
namespace {

constexpr size_t kStackBytes = 64 << 10;

enum class State { kReady, kAtBlockBarrier, kAtWarpBarrier };

struct Fiber {
  ucontext_t context;
  std::unique_ptr<std::byte[]> stack = std::make_unique<std::byte[]>(kStackBytes);
  Place place;
  State state = State::kReady;
  bool done = true;
  uint64_t exchanges = 0;  // of its warp that it has been in
};

struct Warp {
  std::array<std::array<uint64_t, kWarp>, 2> words = {};
};

// Runs blocks. A fiber goes through one thread after another until one of them has to wait; then
// the next fiber goes on with the thread after it. So a kernel without barriers needs one fiber.
class BlockRunner {
 public:
  BlockRunner(dim3 blocks, dim3 threads, const std::function<void()>& body)
      : body_(body),
        blocks_(blocks),
        threads_(threads),
        count_(threads.x * threads.y * threads.z) {}

  // With `backwards` threads begin from the last to the first: what lacks a barrier gives other
  // values then.
  bool Run(uint3 block, bool backwards);

  void Wait(State state);
  Place& place() { return current_->place; }
  const std::array<uint64_t, kWarp>& Exchange(uint64_t mine);

 private:
  static void Enter();
  void Switch(Fiber* fiber);
  Fiber* Fresh(uint3 block);
  // Lets those go on for whom all have come; false if there are none.
  bool Release();
  bool AllAt(State state, unsigned first, unsigned last) const;
  unsigned ThreadOf(const Place& place) const {
    return place.thread.x + threads_.x * (place.thread.y + threads_.y * place.thread.z);
  }

  const std::function<void()>& body_;
  const dim3 blocks_, threads_;
  const unsigned count_;
  bool backwards_ = false;
  unsigned next_ = 0;  // how many threads have begun
  ucontext_t scheduler_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Warp> warps_;
  Fiber* current_ = nullptr;
};

thread_local BlockRunner* runner = nullptr;

// What a fiber does: threads, until no more are to be begun.
void BlockRunner::Enter() {
  BlockRunner& self = *runner;
  while (self.next_ < self.count_) {
    Fiber& fiber = *self.current_;
    const unsigned nth = self.next_++;
    const unsigned t = self.backwards_ ? self.count_ - 1 - nth : nth;
    fiber.place.thread = {t % self.threads_.x, t / self.threads_.x % self.threads_.y,
                          t / self.threads_.x / self.threads_.y};
    fiber.exchanges = 0;
    self.body_();
  }
  self.current_->done = true;
  setcontext(&self.scheduler_);
}

Fiber* BlockRunner::Fresh(uint3 block) {
  auto free = std::find_if(fibers_.begin(), fibers_.end(), [](const auto& f) { return f->done; });
  if (free == fibers_.end()) free = fibers_.insert(free, std::make_unique<Fiber>());
  Fiber& fiber = **free;
  fiber.place = {.thread = {}, .block = block, .threads = threads_, .blocks = blocks_};
  fiber.done = false;
  fiber.state = State::kReady;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStackBytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, &BlockRunner::Enter, 0);
  return &fiber;
}

void BlockRunner::Switch(Fiber* fiber) {
  current_ = fiber;
  swapcontext(&scheduler_, &fiber->context);
}

void BlockRunner::Wait(State state) {
  current_->state = state;
  Fiber* const mine = current_;
  swapcontext(&mine->context, &scheduler_);
}

const std::array<uint64_t, kWarp>& BlockRunner::Exchange(uint64_t mine) {
  const unsigned t = ThreadOf(current_->place);
  // Two of them by turns: who is in the next exchange has left the one before.
  auto& words = warps_[t / kWarp].words[current_->exchanges++ % 2];
  words[t % kWarp] = mine;
  Wait(State::kAtWarpBarrier);
  return words;
}

bool BlockRunner::AllAt(State state, unsigned first, unsigned last) const {
  unsigned at = 0;
  for (const auto& fiber : fibers_) {
    const unsigned t = ThreadOf(fiber->place);
    if (fiber->done || t < first || t >= last) continue;
    if (fiber->state != state) return false;
    ++at;
  }
  return at > 0;
}

bool BlockRunner::Release() {
  bool any = false;
  const auto release = [&](State state, unsigned first, unsigned last) {
    if (!AllAt(state, first, last)) return;
    any = true;
    for (const auto& fiber : fibers_) {
      const unsigned t = ThreadOf(fiber->place);
      if (!fiber->done && t >= first && t < last) fiber->state = State::kReady;
    }
  };
  for (unsigned w = 0; w < warps_.size(); ++w) {
    release(State::kAtWarpBarrier, w * kWarp, (w + 1) * kWarp);
  }
  release(State::kAtBlockBarrier, 0, count_);
  return any;
}

bool BlockRunner::Run(uint3 block, bool backwards) {
  runner = this;
  backwards_ = backwards;
  next_ = 0;
  warps_.assign((count_ + kWarp - 1) / kWarp, Warp{});
  while (next_ < count_) Switch(Fresh(block));
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (size_t i = 0; i < fibers_.size(); ++i) {
      if (fibers_[i]->done || fibers_[i]->state != State::kReady) continue;
      goes_on = true;
      Switch(fibers_[i].get());
    }
    goes_on = Release() || goes_on;
  }
  runner = nullptr;
  return std::all_of(fibers_.begin(), fibers_.end(), [](const auto& f) { return f->done; });
}

}  // namespace

Place& CurrentPlace() { return runner->place(); }
void BlockBarrier() { runner->Wait(State::kAtBlockBarrier); }
void WarpBarrier() { runner->Wait(State::kAtWarpBarrier); }
const std::array<uint64_t, kWarp>& WarpExchange(uint64_t mine) { return runner->Exchange(mine); }

// From the last block to the first: no block may rely on an earlier one.
bool RunGrid(dim3 blocks, dim3 threads, const std::function<void()>& body) {
  static std::atomic<uint64_t> grids = 0;
  const uint64_t grid = grids++;
  BlockRunner block_runner(blocks, threads, body);
  const uint64_t count = uint64_t{blocks.x} * blocks.y * blocks.z;
  for (uint64_t b = count; b-- > 0;) {
    const uint3 block = {static_cast<unsigned>(b % blocks.x),
                         static_cast<unsigned>(b / blocks.x % blocks.y),
                         static_cast<unsigned>(b / blocks.x / blocks.y)};
    if (!block_runner.Run(block, (grid + b) % 2 == 0)) return false;
  }
  return true;
}

}  // namespace fake_cuda
