// The formula, and the actual memory of arenas on the fake devices.
#include "worker/aggregator/device/gpu_budget.h"

#include <memory>
#include <utility>
#include <vector>

#include "common/job/job.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device.h"
#include "kernels/fake_cuda/control.h"
#include "kernels/fake_cuda/memory.h"
#include "worker/aggregator/device/device_arenas.h"

namespace strata::worker {
namespace {

constexpr uint32_t kChunkElements = 512;
constexpr uint64_t kElements = 3 * kChunkElements + 77;
constexpr uint64_t kArena = kElements * sizeof(float);

proto::Placement Placement(uint32_t chunk_elements) {
  proto::Placement placement;
  placement.set_chunk_elements(chunk_elements);
  return placement;
}

proto::Job GpuJob(proto::Encoding::Codec codec = proto::Encoding::FP32) {
  proto::Job job;
  job.set_device(proto::Job::GPU);
  job.mutable_push()->set_codec(codec);
  if (codec == proto::Encoding::DGC) job.mutable_push()->set_momentum(0.9f);
  FillDefaults(&job);
  return job;
}

struct Layout {
  std::vector<uint32_t> gpus;  // by rank
  bool peers = true;           // whether their kernels can access each other's memory
};

class GpuBudgetTest : public testing::TestWithParam<Layout> {
 protected:
  GpuBudgetTest() {
    fake_cuda::Configure({.devices = 2, .memory_bytes = 256 << 20, .peers = GetParam().peers});
  }
  ~GpuBudgetTest() override { fake_cuda::Configure({}); }

  // Arenas of such a job, once each chunk has been summed.
  std::unique_ptr<DeviceArenas> Work(const proto::JobRecord& record, bool encodes) {
    const auto found = *cuda::FindDevices();
    const std::vector<std::shared_ptr<device::Device>> used = {*found->Use(0), *found->Use(1)};
    DeviceArenasOptions options{.wake = [] {}, .encodes_for = encodes ? &record : nullptr};
    for (uint32_t gpu : GetParam().gpus) options.devices.push_back(used[gpu]);
    auto arenas = *DeviceArenas::Create(memory_.get(), &core_, map_, options);
    for (uint32_t r = 0; r < GetParam().gpus.size(); ++r) {
      const auto stream = *options.devices[r]->NewStream(false);
      EXPECT_TRUE(stream->Fill(arenas->GradientsForTest(r).get(), 0, kArena).ok());
      EXPECT_TRUE(stream->Synchronize().ok());
    }
    std::vector<ChunkId> summed;
    for (uint32_t c = 0; c < map_.chunks(); ++c) {
      EXPECT_FALSE(arenas->BeginSum(ChunkId(c), 0).value());
    }
    while (arenas->busy()) {
      const absl::Status status = arenas->Poll(&summed);
      EXPECT_EQ(status, absl::OkStatus());
      if (!status.ok()) break;
    }
    return arenas;
  }

  // Upper bounds: space for kernels of GPUs with more multiprocessors, and for gradients that must
  // be copied if kernels cannot access them.
  static uint64_t SpareOf(const MemoryFormula& need) {
    uint64_t spare = 0;
    for (const MemoryFormula::Part& part : need.parts) {
      if (part.what == "codec's work space") spare += part.bytes;
      if (part.what == "gradients of other GPUs" && GetParam().peers) spare += part.bytes;
    }
    return spare;
  }

  const uint32_t ranks_ = static_cast<uint32_t>(GetParam().gpus.size());
  const std::unique_ptr<NodeMemory> memory_ = *NodeMemory::Create(kElements, ranks_);
  const ChunkMap map_{kElements, kChunkElements};
  AggregatorCore core_{RankId(0), ranks_, map_.chunks()};
};

TEST_P(GpuBudgetTest, EachGpuTakesWhatTheFormulaSays) {
  using proto::Encoding;
  for (const auto codec : {Encoding::FP32, Encoding::FP16, Encoding::INT8, Encoding::ONE_BIT,
                           Encoding::TOP_K, Encoding::DGC}) {
    SCOPED_TRACE(Encoding::Codec_Name(codec));
    proto::JobRecord record;
    *record.mutable_job() = GpuJob(codec);
    record.mutable_view()->add_nodes()->set_ranks(ranks_);
    const auto arenas = Work(record, codec != Encoding::FP32);
    const auto needs =
        MemoryByGpu(record.job(), kElements, GetParam().gpus, Placement(kChunkElements));
    uint64_t all = 0;
    for (const auto& [gpu, need] : needs) {
      const uint64_t used = fake_cuda::DeviceMemory::Get().used(static_cast<int>(gpu));
      const uint64_t spare = SpareOf(need);
      EXPECT_LE(used, need.total()) << need.ToString();
      EXPECT_GE(used, need.total() - spare) << need.ToString();
      all += need.total() - spare;
    }
    EXPECT_EQ(arenas->device_bytes(), all);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, GpuBudgetTest,
                         testing::Values(Layout{{0}}, Layout{{0, 0, 0}}, Layout{{1, 0, 1, 0, 1}},
                                         Layout{{1, 0, 1, 0}, false}));

// 1 MiB of weights, which take 2 MiB, 4 ranks on 2 GPUs, 64 chunks of 16 KiB.
TEST(GpuBudget, OfSeveralGpusIsThatOfEach) {
  const proto::Job job = GpuJob(proto::Encoding::DGC);
  const MemoryFormula all = MemoryOfGpus(job, 1 << 18, 2, 4, Placement(4096));
  EXPECT_EQ(all.ToString(),
            "14.4 MiB: weights 4.0 MiB + gradients 8.0 MiB + encoded weights 32.0 KiB + gradients "
            "of other GPUs 64.0 KiB + not sent 2.0 MiB + encoded sums 64.2 KiB + codec's work "
            "space 256.0 KiB");
  uint64_t sum = 0;
  const auto by_gpu = MemoryByGpu(job, 1 << 18, {5, 3, 5, 5}, Placement(4096));
  for (const auto& [gpu, need] : by_gpu) sum += need.total();
  EXPECT_EQ(sum, all.total());
  EXPECT_EQ(by_gpu.at(5).total() - by_gpu.at(3).total(), (4u << 20) - 2 * (16 << 10))
      << "two ranks more, whose gradients need not be copied";
}

// Gradients are not copied then; each rank has a verdict for each of the 64 chunks.
TEST(GpuBudget, WhereRanksAddUpByNcclHasTheirVerdicts) {
  proto::Job job = GpuJob();
  job.set_node_sum(proto::NodeSum::NCCL);
  const MemoryFormula need = MemoryOfGpus(job, 1 << 18, 2, 2, Placement(4096));
  ASSERT_EQ(need.parts.size(), 4u);
  EXPECT_EQ(need.parts[3].what, "verdicts");
  EXPECT_EQ(need.parts[3].bytes, 2u * 64 * 4);
}

TEST(GpuBudget, HasNothingOfChunksWhereThePlacementIsNotKnown) {
  const MemoryFormula need = MemoryOfGpus(GpuJob(), 1 << 18, 1, 2, {});
  ASSERT_EQ(need.parts.size(), 2u);
  EXPECT_EQ(need.total(), 6u << 20);
}

// Layers work with sums in fp32, and their pushes are encoded on the host.
TEST(GpuBudget, HasNoEncoderWhereLayersComeBefore) {
  proto::Job job = GpuJob(proto::Encoding::FP16);
  EXPECT_EQ(MemoryOfGpus(job, 1 << 18, 1, 1, Placement(4096)).parts.size(), 5u);
  job.mutable_consistency()->set_preset("delay1");
  FillDefaults(&job);
  EXPECT_EQ(MemoryOfGpus(job, 1 << 18, 1, 1, Placement(4096)).parts.size(), 3u);
}

TEST(GpuBudget, OfOtherJobsIsNothingAndOfArenasBeyondAllMemoryDoesNotWrapAround) {
  proto::Job job = GpuJob();
  EXPECT_EQ(MemoryOfGpus(job, UINT64_MAX, 1, 1, {}).total(), UINT64_MAX);
  job.set_exchange(proto::Job::NONE);
  EXPECT_EQ(MemoryOfGpus(job, 1 << 18, 1, 1, {}).total(), 0u);
  EXPECT_EQ(MemoryOfGpus(proto::Job(), 1 << 18, 1, 1, {}).total(), 0u);
}

}  // namespace
}  // namespace strata::worker
