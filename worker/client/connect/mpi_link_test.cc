#include "worker/client/connect/mpi_link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/job/job.h"
#include "worker/client/connect/collective.h"

namespace strata::mpi {

// A collective for tests: the ranks are threads of one process. Adds in the order of ranks. Wait
// and the blocking calls fail with Unavailable after Abort.
class ThreadWorld {
 public:
  explicit ThreadWorld(uint32_t ranks) : ranks_(ranks), next_(ranks, 0) {}

  // Returns the collective of one rank, to be used on its thread. The world outlives it.
  std::unique_ptr<Collective> Join(uint32_t rank);

 private:
  friend class ThreadCollective;
  // Collects all ranks' values for one call.
  template <typename T>
  struct Round {
    std::vector<absl::Span<T>> values;  // by rank
    uint32_t come = 0, gone = 0;
    bool done = false;
  };

  const uint32_t ranks_;
  absl::Mutex mutex_;
  std::map<uint64_t, Round<float>> sums_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Round<uint64_t>> small_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> next_ ABSL_GUARDED_BY(mutex_);  // by rank: calls so far
  std::deque<std::string> posted_ ABSL_GUARDED_BY(mutex_);
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
};

namespace {

constexpr uint64_t kElements = 1000;
constexpr uint64_t kSteps = 5;

proto::Job JobOf(uint32_t ranks) {
  proto::Job job;
  job.set_name("mpi");
  job.mutable_model()->set_zoo("mlp");
  job.mutable_optimizer()->mutable_momentum_sgd();
  job.set_exchange(proto::Job::MPI);
  job.set_ranks(ranks);
  job.set_chunk_elements(256);
  FillDefaults(&job);
  return job;
}

proto::Layout LayoutOf(const std::string& name) {
  proto::Layout layout;
  layout.set_elements(kElements);
  proto::Segment* segment = layout.add_segments();
  segment->set_name(name);
  segment->add_shape(kElements);
  segment->set_lr_multiplier(1);
  segment->set_decay_multiplier(1);
  return layout;
}

// A fault of one rank; by default none.
struct Fault {
  uint32_t rank = UINT32_MAX;
  bool other_tensor = false, other_weights = false, nan = false, diverges = false;
};

struct Ended {
  absl::Status status;
  std::vector<float> weights;
  Progress progress;
};

absl::Status Train(MpiLink* link, Collective* collective, const Fault& fault, Ended* ended) {
  const bool bad = fault.rank == collective->rank();
  auto view = link->Allocate(LayoutOf(bad && fault.other_tensor ? "v" : "w"));
  if (!view.ok()) return view.status();
  for (float& w : view->weights) w = bad && fault.other_weights ? 2.0f : 1.0f;
  auto facts = link->Start({.samples_per_epoch = 100});
  if (!facts.ok()) return facts.status();
  const uint32_t chunks = (kElements + facts->chunk_elements - 1) / facts->chunk_elements;
  for (uint64_t step = 0; step < kSteps; ++step) {
    // Rank r has r + 1 samples a step.
    if (auto status = link->BeginStep(step, collective->rank() + 1, 0); !status.ok()) return status;
    for (uint32_t c = chunks; c-- > 0;) {
      if (auto status = link->AwaitWeights(ChunkId(c), step); !status.ok()) return status;
    }
    for (float& g : view->gradients) g = static_cast<float>(collective->rank() + 1 + step);
    if (bad && fault.nan && step == 2) view->gradients[700] = std::nanf("");
    if (bad && fault.diverges && step == 2) view->weights[3] += 1;
    for (uint32_t c = 0; c < chunks; ++c) {
      if (auto status = link->Publish({ChunkId(c)}, step); !status.ok()) return status;
    }
  }
  const absl::Status finished = link->Finish(kSteps);
  ended->weights.assign(view->weights.begin(), view->weights.end());
  ended->progress = link->progress();
  return finished;
}

std::vector<Ended> RunRanks(uint32_t ranks, const Fault& fault = {}) {
  ThreadWorld world(ranks);
  std::vector<Ended> ended(ranks);
  std::vector<std::thread> threads;
  const proto::Job job = JobOf(ranks);
  for (uint32_t r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const std::unique_ptr<Collective> collective = world.Join(r);
      MpiLink link(job, 0, collective.get(), kernels::Cpu(),
                   {[](const client::JobFacts&, const proto::Layout&) { return absl::OkStatus(); },
                    [] { return absl::OkStatus(); }});
      ended[r].status = Train(&link, collective.get(), fault, &ended[r]);
      if (!ended[r].status.ok()) collective->Abort(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ended;
}

// w after kSteps of momentum SGD with the mean gradient over all samples.
float Expected(uint32_t ranks) {
  float w = 1.0f, v = 0.0f, samples = 0.0f;
  for (uint32_t r = 0; r < ranks; ++r) samples += static_cast<float>(r + 1);
  for (uint64_t step = 0; step < kSteps; ++step) {
    float sum = 0;
    for (uint32_t r = 0; r < ranks; ++r) sum += static_cast<float>(r + 1 + step);
    v = 0.9f * v + sum / samples;
    w -= 0.05f * v;
  }
  return w;
}

TEST(MpiLink, EveryRankHasTheWeightsOfTheMeanGradientOverAllSamples) {
  for (const uint32_t ranks : {1, 2, 3}) {
    const std::vector<Ended> ended = RunRanks(ranks);
    for (const Ended& one : ended) {
      ASSERT_TRUE(one.status.ok()) << one.status;
      for (const float w : one.weights) ASSERT_NEAR(w, Expected(ranks), 1e-5);
      EXPECT_EQ(one.weights, ended[0].weights);
      EXPECT_EQ(one.progress.chunks, kSteps * 4);
      EXPECT_LE(one.progress.done_before_wait, one.progress.chunks);
    }
  }
}

// Names the rank at fault, or all if that cannot be known.
void ExpectFailure(const Fault& fault, const std::string& text) {
  bool said = false;
  for (const Ended& one : RunRanks(3, fault)) {
    EXPECT_FALSE(one.status.ok());
    said = said || one.status.message().find(text) != absl::string_view::npos;
  }
  EXPECT_TRUE(said) << text;
}

TEST(MpiLink, RanksThatBeginWithOtherTensorsOrWeightsAreRefused) {
  ExpectFailure({.rank = 1, .other_tensor = true}, "ranks have other tensors");
  ExpectFailure({.rank = 2, .other_weights = true}, "ranks have other first weights");
}

TEST(MpiLink, AGradientThatIsNotFiniteEndsTheJobAndNamesTheChunk) {
  ExpectFailure({.rank = 1, .nan = true}, "the gradient of chunk 2 is not finite at step 2");
}

TEST(MpiLink, RanksThatHaveDriftedApartAreFoundAtTheEnd) {
  ExpectFailure({.rank = 1, .diverges = true}, "ranks have other final weights");
}

}  // namespace

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
