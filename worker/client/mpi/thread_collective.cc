#include "worker/client/mpi/thread_collective.h"

#include <algorithm>
#include <utility>

namespace strata::mpi {

class ThreadCollective final : public Collective {
 public:
  ThreadCollective(ThreadWorld* world, uint32_t rank) : world_(*world), rank_(rank) {}

  uint32_t rank() const override { return rank_; }
  uint32_t ranks() const override { return world_.ranks_; }

  absl::StatusOr<uint64_t> StartSum(absl::Span<float> values) override {
    absl::MutexLock lock(&world_.mutex_);
    const uint64_t number = world_.next_[rank_]++;
    ThreadWorld::Round<float>& round = world_.sums_[number];
    round.values.resize(world_.ranks_);
    round.values[rank_] = values;
    if (++round.come == world_.ranks_) {
      Reduce(&round, [](float a, float b) { return a + b; });
    }
    return number;
  }

  absl::StatusOr<bool> IsDone(uint64_t sum) override {
    absl::MutexLock lock(&world_.mutex_);
    return world_.sums_[sum].done;
  }

  absl::Status Wait(uint64_t sum) override {
    absl::MutexLock lock(&world_.mutex_);
    ThreadWorld::Round<float>& round = world_.sums_[sum];
    if (absl::Status status = Await(&round.done); !status.ok()) return status;
    if (++round.gone == world_.ranks_) world_.sums_.erase(sum);
    return absl::OkStatus();
  }

  absl::Status Sum(absl::Span<uint64_t> values) override {
    return Small(values, [](uint64_t a, uint64_t b) { return a + b; });
  }
  absl::Status Max(absl::Span<uint64_t> values) override {
    return Small(values, [](uint64_t a, uint64_t b) { return std::max(a, b); });
  }

  absl::Status Post(const std::string& message) override {
    absl::MutexLock lock(&world_.mutex_);
    world_.posted_.push_back(message);
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<std::string>> Take() override {
    absl::MutexLock lock(&world_.mutex_);
    if (world_.posted_.empty()) return std::optional<std::string>();
    std::optional<std::string> message = std::move(world_.posted_.front());
    world_.posted_.pop_front();
    return message;
  }

  void Abort(int) override {
    absl::MutexLock lock(&world_.mutex_);
    world_.aborted_ = true;
  }

 private:
  template <typename T, typename Add>
  static void Reduce(ThreadWorld::Round<T>* round, Add add) {
    for (size_t i = 0; i < round->values[0].size(); ++i) {
      T total = round->values[0][i];
      for (size_t r = 1; r < round->values.size(); ++r) total = add(total, round->values[r][i]);
      for (absl::Span<T>& values : round->values) values[i] = total;
    }
    round->done = true;
  }

  absl::Status Await(const bool* done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(world_.mutex_) {
    const auto is_over = [this, done]() ABSL_SHARED_LOCKS_REQUIRED(world_.mutex_) {
      return *done || world_.aborted_;
    };
    world_.mutex_.Await(absl::Condition(&is_over));
    return *done ? absl::OkStatus() : absl::UnavailableError("another rank has ended the job");
  }

  template <typename Add>
  absl::Status Small(absl::Span<uint64_t> values, Add add) {
    absl::MutexLock lock(&world_.mutex_);
    const uint64_t number = world_.next_[rank_]++;
    ThreadWorld::Round<uint64_t>& round = world_.small_[number];
    round.values.resize(world_.ranks_);
    round.values[rank_] = values;
    if (++round.come == world_.ranks_) Reduce(&round, add);
    if (absl::Status status = Await(&round.done); !status.ok()) return status;
    if (++round.gone == world_.ranks_) world_.small_.erase(number);
    return absl::OkStatus();
  }

  ThreadWorld& world_;
  const uint32_t rank_;
};

std::unique_ptr<Collective> ThreadWorld::Join(uint32_t rank) {
  return std::make_unique<ThreadCollective>(this, rank);
}

}  // namespace strata::mpi
