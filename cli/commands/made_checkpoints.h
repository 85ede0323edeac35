#ifndef STRATA_CLI_COMMANDS_MADE_CHECKPOINTS_H_
#define STRATA_CLI_COMMANDS_MADE_CHECKPOINTS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/file_store.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/store.h"
#include "common/image/chunk_image.h"
#include "common/image/node_image.h"
#include "proto/record.pb.h"

// Checkpoints of a small job, for tests.

namespace strata::cli {

// The record of job 7, "made", on two shards and one node: 30 elements in chunks of 8, of the
// tensors 0.weight [4, 3], 0.bias [4], running [4] (averaged), 1.weight [2, 4] and what Python
// calls a frozen tensor [1], and one more of 1 element. `fields` are protobuf text that is merged
// into the job: "optimizer { adam {} }".
proto::JobRecord MadeRecord(const std::string& fields);

// The gradient of element `element` in step `step`, from 1 on, and its first weight.
float MadeGradient(uint64_t step, uint64_t element);
float MadeWeight(uint64_t element);

// The images of all chunks after `steps` steps, made by the updates of the record's job, at a rate
// of 0.1. REQUIRES: no optimizer that needs norms.
std::vector<ChunkImage> MadeImages(const proto::JobRecord& record, uint64_t steps);

// Puts the objects and the manifest of a checkpoint: chunk c in shard-(c mod 2), and nodes.
// Returns the manifest.
absl::StatusOr<Manifest> PutCheckpoint(Store& store, const proto::JobRecord& record, uint64_t clock,
                                       const std::vector<ChunkImage>& images,
                                       const std::vector<NodeImage>& nodes = {});

// A store in a folder for the test, for checkpoints of the small job.
class MadeStore : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    store_ = *FileStore::Open(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Store& store() { return *store_; }
  // Makes the checkpoint of a step, for a job with adam.
  Manifest Make(uint64_t step) {
    const proto::JobRecord record = MadeRecord("optimizer { adam {} }");
    return *PutCheckpoint(*store_, record, step, MadeImages(record, step));
  }
  void Put(uint64_t step, const std::string& part, const std::string& content) {
    const absl::Span<const char> piece(content);
    ASSERT_TRUE(store_->Put(Checkpoints::ObjectName(step, part), {&piece, 1}).ok());
  }
  void Remove(uint64_t step, const std::string& part) {
    ASSERT_TRUE(store_->Delete(Checkpoints::ObjectName(step, part)).ok());
  }
  // The path as in errors.
  std::string PathOf(uint64_t step, const std::string& part) {
    return store_->where() + "/" + Checkpoints::ObjectName(step, part);
  }

  const std::string folder_ = (std::filesystem::path(::testing::TempDir()) / "made_store").string();

 private:
  std::unique_ptr<FileStore> store_;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_COMMANDS_MADE_CHECKPOINTS_H_
