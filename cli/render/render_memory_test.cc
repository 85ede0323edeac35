
#include "cli/render/render_memory.h"

#include <nlohmann/json.hpp>

#include "cli/render/render.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two nodes of two ranks, 1 MiB in 64 chunks on two shards.
struct Example {
  proto::JobRecord record;
  proto::JobStatus status;

  explicit Example(proto::Job::Exchange exchange) {
    proto::Job& job = *record.mutable_job();
    job.set_exchange(exchange);
    job.set_window(4);
    job.set_ranks(4);
    job.mutable_optimizer()->mutable_adam();
    FillDefaults(&job);
    record.mutable_layout()->set_elements(1 << 18);
    proto::Segment* segment = record.mutable_layout()->add_segments();
    segment->set_name("w");
    segment->add_shape(1 << 18);
    segment->set_lr_multiplier(1);
    segment->set_decay_multiplier(1);
    proto::Placement& placement = *record.mutable_placement();
    placement.set_generation(1);
    placement.set_chunk_elements(4096);
    record.mutable_view()->set_number(1);
    for (uint32_t i = 0; i < 2; ++i) {
      proto::LogicalNode* logical = record.mutable_view()->add_nodes();
      logical->set_node(i);
      logical->set_first_rank(2 * i);
      logical->set_ranks(2);
      proto::JobNodeStatus* node = status.add_nodes();
      node->set_node(i);
      node->set_daemon("w" + std::to_string(i));
      node->set_ranks(2);
    }
    status.set_chunks(64);
    if (exchange != proto::Job::PARAMETER_SERVER) return;
    for (uint32_t i = 0; i < 2; ++i) {
      placement.add_shard_endpoints("tcp://h:" + std::to_string(i));
      status.add_shards()->set_daemon("s" + std::to_string(i));
    }
    for (uint32_t c = 0; c < 64; ++c) placement.add_shard_of_chunk(c % 2);
  }
};

TEST(MemoryParts, OfASyncJobStandInATableWithMultiplesOfTheModel) {
  Example example(proto::Job::PARAMETER_SERVER);
  AddMemoryParts(example.record, &example.status);
  EXPECT_EQ(
      MemoryTable(example.status),
      "  memory of    for                                             at most    x the model\n"
      "  node 0 (w0)  shared memory (1 + 2) x 1.0 MiB and its counts  3.0 MiB    3.039\n"
      "               first weights 2 x 1.0 MiB                       2.0 MiB    2.000\n"
      "               messages 2 x 2 x 4 x 16.0 KiB                   256.0 KiB  0.250\n"
      "               sum                                             5.3 MiB    5.289\n"
      "               of 2 nodes                                      10.6 MiB   10.578\n"
      "  s0 shard 0   weights                                         512.0 KiB  0.500\n"
      "               chunk in update                                 16.0 KiB   0.016\n"
      "               optimizer state 2 x 512.0 KiB                   1.0 MiB    1.000\n"
      "               held sums (2 x 4 - 1) x 16.0 KiB                112.0 KiB  0.109\n"
      "               messages 2 x 2 x 4 x 16.0 KiB                   256.0 KiB  0.250\n"
      "               sum                                             1.9 MiB    1.875\n"
      "               of 2 shards                                     3.8 MiB    3.750\n");
  const auto json = nlohmann::json::parse(JobJson(example.status));
  const auto part = json["shards"][1]["memory_parts"][2];
  EXPECT_EQ(part["name"], "optimizer state 2 x 512.0 KiB");
  EXPECT_EQ(part["limit_bytes"], 1 << 20);
  EXPECT_EQ(part["model_sizes"], 1.0);
  EXPECT_EQ(json["nodes"][1]["memory_parts"].size(), 3u);
}

TEST(MemoryParts, OfAnAllReduceAreOfItsNodesOnly) {
  Example example(proto::Job::RING);
  AddMemoryParts(example.record, &example.status);
  const auto& parts = example.status.nodes(0).memory_parts();
  ASSERT_EQ(parts.size(), 4);
  EXPECT_EQ(parts[2].name(), "own slices 3 x 512.0 KiB");
  EXPECT_NEAR(parts[2].model_sizes(), 1.5, 1e-4);
  EXPECT_EQ(parts[3].model_sizes(), 0.25);
}

// Each node has its two ranks on two GPUs, which shows in what its daemon promises.
TEST(MemoryParts, OfAJobOnGpusAreThoseOfTheGpusToo) {
  Example example(proto::Job::PARAMETER_SERVER);
  example.record.mutable_job()->set_device(proto::Job::GPU);
  // 1 MiB is part of 2 MiB.
  const uint64_t promised = (8 << 20) + 2 * (16384 + 4) + 2 * 16384;
  for (proto::JobNodeStatus& node : *example.status.mutable_nodes()) {
    node.set_gpu_memory_bytes(1 << 20);
    node.set_gpu_memory_limit_bytes(promised);
  }
  AddMemoryParts(example.record, &example.status);
  const std::string table = MemoryTable(example.status);
  for (const char* row : {"  GPUs of 0    weights  ", "               gradients of other GPUs  ",
                          "               encoded weights  "}) {
    EXPECT_THAT(table, HasSubstr(row));
  }
  EXPECT_THAT(table, ContainsRegex(" sum +8.1 MiB +8.063\n +of 2 nodes +16.1 MiB +16.125\n"));
  const std::string text = JobText(example.status);
  EXPECT_THAT(text, HasSubstr("GPU memory  at most\n"));
  EXPECT_THAT(text, HasSubstr("1.0 MiB     8.1 MiB\n"));
  EXPECT_THAT(text, HasSubstr("2.0 MiB     16.1 MiB\n"));
  const auto json = nlohmann::json::parse(JobJson(example.status));
  EXPECT_EQ(json["nodes"][1]["gpu_memory_bytes"], 1 << 20);
  EXPECT_EQ(json["nodes"][1]["gpu_memory_limit_bytes"], promised);
  EXPECT_EQ(json["nodes"][1]["gpu_memory_parts"].size(), 4u);

  // Not yet promised, or with another placement.
  Example early(proto::Job::PARAMETER_SERVER);
  early.record.mutable_job()->set_device(proto::Job::GPU);
  early.status.mutable_nodes(0)->set_gpu_memory_limit_bytes(5);
  AddMemoryParts(early.record, &early.status);
  EXPECT_TRUE(early.status.nodes(0).gpu_memory_parts().empty());
  EXPECT_TRUE(early.status.nodes(1).gpu_memory_parts().empty());
}

TEST(MemoryParts, OfAJobWithoutChunksAreNotKnown) {
  Example example(proto::Job::PARAMETER_SERVER);
  example.status.set_chunks(0);
  AddMemoryParts(example.record, &example.status);
  EXPECT_THAT(MemoryTable(example.status), IsEmpty());
}

}  // namespace
}  // namespace strata::cli
