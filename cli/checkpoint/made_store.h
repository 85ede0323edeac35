#ifndef STRATA_CLI_CHECKPOINT_MADE_STORE_H_
#define STRATA_CLI_CHECKPOINT_MADE_STORE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "cli/checkpoint/made_checkpoints.h"
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/file_store.h"

namespace strata::cli {

// A store in a folder of the test's own, for checkpoints of the small job.
class MadeStore : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    store_ = *FileStore::Open(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Store& store() { return *store_; }
  // Makes the checkpoint of a step, of a job with adam.
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
  // As errors name it.
  std::string PathOf(uint64_t step, const std::string& part) {
    return store_->where() + "/" + Checkpoints::ObjectName(step, part);
  }

  const std::string folder_ = (std::filesystem::path(::testing::TempDir()) / "made_store").string();

 private:
  std::unique_ptr<FileStore> store_;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_CHECKPOINT_MADE_STORE_H_
