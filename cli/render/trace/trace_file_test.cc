#include "cli/render/trace/trace_file.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "gtest/gtest.h"

namespace strata::cli {
namespace {

class TraceFileTest : public ::testing::Test {
 protected:
  TraceFileTest() {
    char path[] = "/tmp/strata-trace-XXXXXX";
    dir_ = mkdtemp(path);
  }
  ~TraceFileTest() override { std::filesystem::remove_all(dir_); }

  std::string Refused(const std::string& path) {
    const absl::Status status = CheckTraceFile(path);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  std::string dir_;
};

TEST_F(TraceFileTest, APlaceThatCanBeWrittenToIsLeftAsItWas) {
  EXPECT_TRUE(CheckTraceFile(dir_ + "/t.json").ok());
  EXPECT_TRUE(std::filesystem::is_empty(dir_));
}

TEST_F(TraceFileTest, WhatCannotBeWrittenToIsNamed) {
  EXPECT_EQ(Refused(dir_), "--trace " + dir_ + ": Is a directory");
  EXPECT_EQ(Refused(dir_ + "/no/t.json"),
            "--trace " + dir_ + "/no/t.json: No such file or directory");
  const std::string pipe = dir_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(Refused(pipe), "--trace " + pipe + ": not a regular file");
}

}  // namespace
}  // namespace strata::cli
