#include "server/coordinator/jobs/go_on.h"

#include <functional>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace strata::server {
namespace {

proto::Job Wish() {
  proto::Job job;
  job.set_name("a");
  job.mutable_model()->set_zoo("mlp");
  job.mutable_data()->mutable_idx()->set_dir("/data");
  job.set_seed(1);
  job.set_ranks(4);
  job.mutable_optimizer()->mutable_sgd();
  job.mutable_consistency()->mutable_sync();
  return job;
}

proto::JobRecord Record() {
  proto::JobRecord record;
  *record.mutable_job() = Wish();
  record.mutable_placement()->set_chunk_elements(256);
  return record;
}

absl::Status With(const std::function<void(proto::Job*)>& change) {
  proto::Job job = Wish();
  change(&job);
  return CheckContinues(job, Record());
}

TEST(GoOn, WhatMayDifferIsTaken) {
  EXPECT_EQ(With([](proto::Job* job) {
              job->set_name("b");
              job->set_epochs(7);
              job->mutable_schedule()->set_base_lr(3);
              job->mutable_data()->mutable_idx()->set_dir("/moved");
              job->set_ranks_per_node(2);
              job->set_chunk_elements(256);
              job->mutable_checkpoint()->set_dir("/c");
              job->mutable_consistency()->set_preset_name("sync");
            }),
            absl::OkStatus());
}

TEST(GoOn, WhatMayNotIsRefusedWithBothValues) {
  const auto refused = [](const std::function<void(proto::Job*)>& change) {
    const absl::Status status = With(change);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(refused([](proto::Job* job) { job->set_seed(2); }),
            "seed: 2, but the checkpoint's is 1");
  EXPECT_EQ(refused([](proto::Job* job) { job->set_ranks(8); }),
            "ranks: 8, but the checkpoint's is 4");
  EXPECT_EQ(refused([](proto::Job* job) { job->mutable_model()->set_zoo("lenet5"); }),
            "model: {zoo: \"lenet5\"}, but the checkpoint's is {zoo: \"mlp\"}");
  EXPECT_EQ(refused([](proto::Job* job) { job->mutable_program()->set_path("/p"); }),
            "model, program: program, but the checkpoint's is model");
  EXPECT_EQ(refused([](proto::Job* job) { job->mutable_data()->mutable_synthetic(); }),
            "data: {synthetic { }}, but the checkpoint's is {idx { }}");
  EXPECT_EQ(refused([](proto::Job* job) { job->set_chunk_elements(512); }),
            "chunk_elements: 512, but the checkpoint's is 256");
  EXPECT_EQ(refused([](proto::Job* job) { job->mutable_optimizer()->mutable_adamw(); }),
            "optimizer: {adamw { }}, but the checkpoint's is {sgd { }}");
  EXPECT_EQ(refused([](proto::Job* job) { job->mutable_consistency()->mutable_async(); }),
            "consistency: {async { }}, but the checkpoint's is {sync { }}");
  EXPECT_EQ(refused([](proto::Job* job) { job->mutable_pull()->set_codec(proto::Encoding::FP16); }),
            "pull: {codec: FP16}, but the checkpoint's is {}");
}

TEST(GoOn, AnOptimizerOfTheProgramIsComparedOnceItIsNamed) {
  EXPECT_EQ(With([](proto::Job* job) { job->mutable_optimizer()->mutable_from_program(); }),
            absl::OkStatus());
  proto::JobRecord record = Record();
  EXPECT_EQ(CheckContinues(record, Record()), absl::OkStatus());
  record.mutable_job()->mutable_optimizer()->mutable_adamw();
  EXPECT_EQ(CheckContinues(record, Record()).message(),
            "optimizer: {adamw { }}, but the checkpoint's is {sgd { }}");
}

TEST(GoOn, TensorsThatAreNotThereAreCounted) {
  proto::JobRecord record = Record(), from = Record();
  record.mutable_layout()->add_segments()->set_name("w");
  EXPECT_EQ(CheckContinues(record, from).message(), "tensors: 1, but the checkpoint's is 0");
}

TEST(GoOn, TablesAreTheSameButForTheirCapacity) {
  proto::JobRecord from = Record();
  from.mutable_layout()->add_tables()->set_name("items");
  from.mutable_layout()->mutable_tables(0)->set_columns(4);
  proto::JobRecord record = from;
  record.mutable_layout()->mutable_tables(0)->set_capacity(9);
  EXPECT_EQ(CheckContinues(record, from), absl::OkStatus());
  record.mutable_layout()->mutable_tables(0)->set_columns(5);
  EXPECT_EQ(CheckContinues(record, from).message(),
            "table 0: {name: \"items\" columns: 5}, but the checkpoint's is {name: \"items\" "
            "columns: 4}");
  EXPECT_EQ(CheckContinues(from, Record()).message(), "tables: 1, but the checkpoint's is 0");
}

TEST(GoOn, RowsGoOnInTheirModeAndBuckets) {
  proto::JobRecord from = Record();
  for (int bucket = 0; bucket < 4; ++bucket) from.mutable_placement()->add_shard_of_bucket(0);
  proto::Job job = from.job();
  EXPECT_EQ(CheckContinues(job, from), absl::OkStatus());
  job.mutable_rows()->set_buckets(8);
  EXPECT_EQ(CheckContinues(job, from).message(), "rows.buckets: 8, but the checkpoint's is 4");
  job.mutable_rows()->set_buckets(4);
  job.mutable_rows()->mutable_consistency()->mutable_async();
  EXPECT_EQ(CheckContinues(job, from).message().substr(0, 17), "rows.consistency:");
  Manifest manifest{.clock = 10};
  manifest.objects = {{.name = "clock-10/rows-0.0-1.0", .buckets = {0, 1}},
                      {.name = "clock-10/rows-0.1-1.0", .buckets = {1, 2, 3}}};
  const absl::StatusOr<proto::Resume> resume = MakeResume("/c", manifest, from);
  ASSERT_TRUE(resume.ok()) << resume.status();
  ASSERT_EQ(resume->objects_size(), 2);
  EXPECT_EQ(resume->objects(1).buckets_size(), 3);
  manifest.objects.erase(manifest.objects.begin());
  EXPECT_EQ(MakeResume("/c", manifest, from).status().message(),
            "the checkpoint of step 10 has no object of rows 0");
  manifest.objects = {{.name = "clock-10/rows-0.0-1.0", .buckets = {0, 1}},
                      {.name = "clock-10/rows-0.2-1.0", .buckets = {2, 3}}};
  EXPECT_EQ(MakeResume("/c", manifest, from).status().message(),
            "the checkpoint of step 10 has no object 1 of rows 0");
}

TEST(GoOn, ServersAreToldWhichObjectHasWhichChunk) {
  proto::JobRecord from = Record();
  for (const uint32_t shard : {2, 0, 2}) from.mutable_placement()->add_shard_of_chunk(shard);
  Manifest manifest{.clock = 10};
  manifest.objects = {{.name = "clock-10/shard-0-1.0", .bytes = 7, .checksum = 8},
                      {.name = "clock-10/other-0-1.0"},
                      {.name = "clock-10/shard-2-1.3", .bytes = 9}};
  const absl::StatusOr<proto::Resume> resume = MakeResume("/c", manifest, from);
  ASSERT_TRUE(resume.ok()) << resume.status();
  EXPECT_EQ(resume->dir(), "/c");
  EXPECT_EQ(resume->clock(), 10);
  ASSERT_EQ(resume->objects_size(), 2);
  EXPECT_EQ(resume->objects(0).checksum(), 8);
  EXPECT_EQ(resume->objects(1).bytes(), 9);
  ASSERT_EQ(resume->object_of_chunk_size(), 3);
  EXPECT_EQ(resume->object_of_chunk(0), 1);
  EXPECT_EQ(resume->object_of_chunk(1), 0);
  manifest.objects.pop_back();
  EXPECT_EQ(MakeResume("/c", manifest, from).status(),
            absl::DataLossError("the checkpoint of step 10 has no object of shard 2"));
}

TEST(GoOn, NodesAndRanksThatKeepStateAreToldOfTheirObjects) {
  proto::JobRecord from = Record();
  from.mutable_placement()->add_shard_of_chunk(0);
  from.mutable_job()->mutable_consistency()->mutable_lazy()->set_local_steps(4);
  from.mutable_view()->add_nodes();
  from.mutable_view()->add_nodes();
  from.mutable_job()->set_ranks(2);
  from.set_ranks_keep_state(true);
  Manifest manifest{.clock = 10};
  for (const char* part : {"rank-1", "node-1", "shard-0", "rank-0", "node-0"}) {
    manifest.objects.push_back({.name = std::string("clock-10/") + part + "-1.0"});
  }
  const absl::StatusOr<proto::Resume> resume = MakeResume("/c", manifest, from);
  ASSERT_TRUE(resume.ok()) << resume.status();
  EXPECT_EQ(resume->step(), 40);
  EXPECT_EQ(resume->object_of_chunk(0), 2);
  ASSERT_EQ(resume->object_of_node_size(), 2);
  EXPECT_EQ(resume->object_of_node(0), 4);
  EXPECT_EQ(resume->object_of_node(1), 1);
  ASSERT_EQ(resume->object_of_rank_size(), 2);
  EXPECT_EQ(resume->object_of_rank(0), 3);
  EXPECT_EQ(resume->object_of_rank(1), 0);
  manifest.objects.pop_back();
  EXPECT_EQ(MakeResume("/c", manifest, from).status(),
            absl::DataLossError("the checkpoint of step 40 has no object of node 0"));
  proto::JobRecord record = from;
  record.set_ranks_keep_state(false);
  EXPECT_EQ(CheckContinues(record, from).message(),
            "state of ranks: none, but the checkpoint's is kept");
}

TEST(GoOn, WhereRanksAloneHaveTheWeightsTheirObjectMustBeThere) {
  for (const auto exchange : {proto::Job::NONE, proto::Job::NCCL, proto::Job::MPI}) {
    proto::JobRecord from = Record();
    from.mutable_job()->set_exchange(exchange);
    Manifest manifest{.clock = 10, .objects = {{.name = "clock-10/shard-0-1.0"}}};
    const absl::StatusOr<proto::Resume> resume = MakeResume("/c", manifest, from);
    ASSERT_TRUE(resume.ok()) << resume.status();
    EXPECT_EQ(resume->objects_size(), 1);
    manifest.objects.clear();
    EXPECT_EQ(MakeResume("/c", manifest, from).status(),
              absl::DataLossError("the checkpoint of step 10 has no object of shard 0"));
  }
}

TEST(GoOn, AManifestWithoutARecordIsDamaged) {
  EXPECT_EQ(RecordOf({.clock = 10, .record = "\xff"}).status().code(), absl::StatusCode::kDataLoss);
  // Anybody who can write to a job's folder can write any record.
  proto::JobRecord record;
  record.mutable_job()->set_run_dir(std::string(5000, 'a'));
  const absl::Status large = RecordOf({.clock = 10, .record = record.SerializeAsString()}).status();
  EXPECT_EQ(large.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(large.message(),
            "the checkpoint of step 10: its job's record: job.run_dir has 5000 bytes, at most 4096 "
            "are possible");
}

}  // namespace
}  // namespace strata::server
