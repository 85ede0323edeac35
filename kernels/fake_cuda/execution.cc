// Jumps here go from stack to stack, which the checked longjmp takes for a mistake.
#undef _FORTIFY_SOURCE

#include "kernels/fake_cuda/execution.h"

#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <deque>

namespace fake_cuda {
namespace {

constexpr size_t kStackBytes = 64 << 10;

enum Barrier { kOfWarp, kOfBlock, kBarriers };

// Runs threads of blocks, one after another, on a stack of its own.
struct Fiber {
  std::unique_ptr<std::byte[]> stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  ucontext_t begin;
  bool begun = false;
  std::jmp_buf goes_on;
  GridPosition position;
  unsigned thread = 0;     // its number in the block
  uint64_t exchanges = 0;  // number of its warp's exchanges that it has done
};

struct Warp {
  std::array<std::array<uint64_t, kWarp>, 2> words = {};
  unsigned live = 0;
  std::array<unsigned, kBarriers> waiting = {};
};

// Runs blocks. A fiber runs one thread after another until one of them has to wait; then the next
// fiber continues with the next thread. So a kernel without barriers needs one fiber.
class BlockRunner {
 public:
  BlockRunner(dim3 blocks, dim3 threads, const std::function<void()>& body)
      : body_(body),
        blocks_(blocks),
        threads_(threads),
        count_(threads.x * threads.y * threads.z) {}

  // With `backwards` threads start from the last to the first: code that lacks a barrier then gives
  // other values. Returns false on deadlock.
  bool Run(uint3 block, bool backwards);

  void Wait(Barrier barrier);
  GridPosition& position() { return current_->position; }
  const std::array<uint64_t, kWarp>& Exchange(uint64_t mine);

 private:
  static void Enter();
  void RunThreads();
  void Begin(unsigned nth);
  void End();
  void Switch(Fiber* fiber);
  void BackToScheduler();
  // Releases threads waiting at a barrier that all have reached.
  void ReleaseWarp(unsigned warp);
  void ReleaseBlock();
  void Release(Barrier barrier, unsigned first, unsigned last);

  const std::function<void()>& body_;
  const dim3 blocks_, threads_;
  const unsigned count_;
  uint3 block_;
  bool backwards_ = false;
  unsigned next_ = 0;  // how many threads have begun
  unsigned live_ = 0;  // how many have not ended
  std::array<unsigned, kBarriers> waiting_ = {};
  std::vector<Warp> warps_;
  std::vector<Fiber*> fiber_of_;  // of threads that have begun and not ended
  std::deque<Fiber*> ready_;
  std::jmp_buf scheduler_;
  Fiber* current_ = nullptr;
};

thread_local BlockRunner* runner = nullptr;

// Fibers of this host thread that run no thread of a block.
std::vector<std::unique_ptr<Fiber>>& IdleFibers() {
  static thread_local std::vector<std::unique_ptr<Fiber>> idle;
  return idle;
}

void BlockRunner::Enter() {
  while (true) {
    runner->RunThreads();
    IdleFibers().emplace_back(runner->current_);
    runner->BackToScheduler();
  }
}

// Runs threads until all have begun.
void BlockRunner::RunThreads() {
  while (next_ < count_) {
    Begin(next_++);
    body_();
    End();
  }
}

void BlockRunner::Begin(unsigned nth) {
  const unsigned t = backwards_ ? count_ - 1 - nth : nth;
  current_->position = {
      .thread = {t % threads_.x, t / threads_.x % threads_.y, t / threads_.x / threads_.y},
      .block = block_,
      .threads = threads_,
      .blocks = blocks_};
  current_->thread = t;
  current_->exchanges = 0;
  fiber_of_[t] = current_;
}

void BlockRunner::End() {
  const unsigned t = current_->thread;
  fiber_of_[t] = nullptr;
  --live_;
  --warps_[t / kWarp].live;
  ReleaseWarp(t / kWarp);
  ReleaseBlock();
}

void BlockRunner::Switch(Fiber* fiber) {
  current_ = fiber;
  if (_setjmp(scheduler_) != 0) return;
  if (fiber->begun) _longjmp(fiber->goes_on, 1);
  fiber->begun = true;
  getcontext(&fiber->begin);
  fiber->begin.uc_stack.ss_sp = fiber->stack.get();
  fiber->begin.uc_stack.ss_size = kStackBytes;
  fiber->begin.uc_link = nullptr;
  makecontext(&fiber->begin, &BlockRunner::Enter, 0);
  setcontext(&fiber->begin);
}

void BlockRunner::BackToScheduler() {
  if (_setjmp(current_->goes_on) == 0) _longjmp(scheduler_, 1);
}

void BlockRunner::Wait(Barrier barrier) {
  const unsigned t = current_->thread;
  ++waiting_[barrier];
  ++warps_[t / kWarp].waiting[barrier];
  ReleaseWarp(t / kWarp);
  ReleaseBlock();
  BackToScheduler();
}

const std::array<uint64_t, kWarp>& BlockRunner::Exchange(uint64_t mine) {
  const unsigned t = current_->thread;
  // Two of them alternate: a thread in the next exchange has left the previous one.
  auto& words = warps_[t / kWarp].words[current_->exchanges++ % 2];
  words[t % kWarp] = mine;
  Wait(kOfWarp);
  return words;
}

void BlockRunner::ReleaseWarp(unsigned warp) {
  const unsigned waiting = warps_[warp].waiting[kOfWarp];
  if (waiting == 0 || waiting < warps_[warp].live) return;
  Release(kOfWarp, warp * kWarp, std::min(count_, (warp + 1) * kWarp));
}
void BlockRunner::ReleaseBlock() {
  if (waiting_[kOfBlock] == 0 || waiting_[kOfBlock] < live_) return;
  Release(kOfBlock, 0, count_);
}

void BlockRunner::Release(Barrier barrier, unsigned first, unsigned last) {
  for (unsigned nth = first; nth < last; ++nth) {
    const unsigned t = backwards_ ? last - 1 - (nth - first) : nth;
    if (fiber_of_[t] == nullptr) continue;
    ready_.push_back(fiber_of_[t]);
    --waiting_[barrier];
    --warps_[t / kWarp].waiting[barrier];
  }
}

bool BlockRunner::Run(uint3 block, bool backwards) {
  runner = this;
  block_ = block;
  backwards_ = backwards;
  next_ = 0;
  live_ = count_;
  warps_.assign((count_ + kWarp - 1) / kWarp, Warp{});
  for (unsigned t = 0; t < count_; ++t) ++warps_[t / kWarp].live;
  fiber_of_.assign(count_, nullptr);
  while (next_ < count_) {
    std::vector<std::unique_ptr<Fiber>>& idle = IdleFibers();
    if (idle.empty()) idle.push_back(std::make_unique<Fiber>());
    Fiber* const fiber = idle.back().release();
    idle.pop_back();
    Switch(fiber);
  }
  while (!ready_.empty()) {
    Fiber* const fiber = ready_.front();
    ready_.pop_front();
    Switch(fiber);
  }
  runner = nullptr;
  // Deadlocked fibers are not resumed.
  for (Fiber* const fiber : fiber_of_) const std::unique_ptr<Fiber> abandoned(fiber);
  return live_ == 0;
}

}  // namespace

GridPosition& CurrentPosition() { return runner->position(); }
void BlockBarrier() { runner->Wait(kOfBlock); }
void WarpBarrier() { runner->Wait(kOfWarp); }
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
