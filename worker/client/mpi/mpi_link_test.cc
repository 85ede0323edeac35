#include "worker/client/mpi/mpi_link.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/job/job.h"
#include "worker/client/mpi/thread_collective.h"

namespace strata::mpi {
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

// What one rank does wrong; by default nothing.
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

// The rank at fault, or all where it cannot be told who it is.
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
}  // namespace strata::mpi
