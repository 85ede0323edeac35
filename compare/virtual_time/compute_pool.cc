#include "compare/virtual_time/compute_pool.h"

#include <utility>

namespace strata::compare {

ComputePool::ComputePool(uint32_t threads) {
  for (uint32_t i = 1; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

ComputePool::~ComputePool() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

ComputePool::Ticket ComputePool::Add(Task task) {
  const auto ticket = std::make_shared<absl::Notification>();
  absl::MutexLock lock(&mutex_);
  waiting_.push_back({std::move(task), ticket});
  return ticket;
}

void ComputePool::Do(const Waiting& waiting, Worker* worker) {
  waiting.task(worker);
  waiting.ticket->Notify();
}

void ComputePool::Wait(const Ticket& ticket) {
  while (!ticket->HasBeenNotified()) {
    Waiting next;
    {
      absl::MutexLock lock(&mutex_);
      if (!waiting_.empty()) {
        next = std::move(waiting_.front());
        waiting_.pop_front();
      }
    }
    if (!next.task) return ticket->WaitForNotification();
    Do(next, &own_);
  }
}

void ComputePool::Run() {
  Worker worker;
  const auto may_go_on = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !waiting_.empty();
  };
  while (true) {
    Waiting next;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&may_go_on));
      if (stopping_) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    Do(next, &worker);
  }
}

}  // namespace strata::compare
