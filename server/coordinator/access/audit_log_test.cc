#include "server/coordinator/access/audit_log.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const absl::Time kNow = absl::FromUnixMillis(1800000000123);

class AuditLogTest : public ::testing::Test {
 protected:
  AuditLogTest()
      : dir_(absl::StrCat(::testing::TempDir(), "/audit-",
                          ::testing::UnitTest::GetInstance()->current_test_info()->name(), "-",
                          absl::ToUnixNanos(absl::Now()))),
        path_(dir_ + "/audit.log") {
    std::filesystem::create_directories(dir_);
  }
  ~AuditLogTest() override { std::filesystem::remove_all(dir_); }

  std::unique_ptr<AuditLog> Open(const AuditLog::Options& options = {}) {
    auto log = AuditLog::Open(path_, options);
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }
  static std::string TextOf(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<std::string> Lines() const {
    return absl::StrSplit(TextOf(path_), '\n', absl::SkipEmpty());
  }

  const std::string dir_, path_;
};

AuditEntry Submit(uint32_t job) { return {"user ada", "ipv4:10.0.0.1:5", "submit", job}; }
AuditEntry Refused() { return {"a stranger", "", "join", 0, true, "the token is not known"}; }

TEST_F(AuditLogTest, EachEntryIsALineOfJson) {
  const auto log = Open();
  log->Write({"user ada", "ipv4:10.0.0.1:5", "submit", 7, false, "resnet"}, kNow);
  log->Write(Refused(), kNow);
  EXPECT_EQ(TextOf(path_),
            R"({"time":"2027-01-15T08:00:00.123Z","who":"user ada","peer":"ipv4:10.0.0.1:5",)"
            R"("what":"submit","job":7,"outcome":"done","detail":"resnet"})"
            "\n"
            R"({"time":"2027-01-15T08:00:00.123Z","who":"a stranger","what":"join",)"
            R"("outcome":"refused","detail":"the token is not known"})"
            "\n");
}

TEST_F(AuditLogTest, WhatAPeerSaysStaysWithinItsLine) {
  const auto log = Open();
  AuditEntry entry = Submit(1);
  entry.detail = std::string("a\n\"b\\\xff\x1b[2J\0c", 13) + std::string(5000, 'x');
  log->Write(entry, kNow);
  const std::vector<std::string> lines = Lines();
  ASSERT_THAT(lines, SizeIs(1));
  for (const char c : lines[0]) EXPECT_TRUE(c >= ' ' && c <= '~');
  EXPECT_LT(lines[0].size(), 2000u);
  EXPECT_EQ(json::parse(lines[0])["who"], "user ada");
}

TEST_F(AuditLogTest, OnlyThisUserReadsItAndItIsAddedTo) {
  std::ofstream(path_) << "before\n";
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  Open()->Write(Submit(1), kNow);
  struct stat is = {};
  ASSERT_EQ(stat(path_.c_str(), &is), 0);
  EXPECT_EQ(is.st_mode & 07777, 0600u);
  ASSERT_THAT(Lines(), SizeIs(2));
  EXPECT_EQ(Lines()[0], "before");
}

TEST_F(AuditLogTest, ALineThatWasCutOffIsNotGoneOnWith) {
  std::ofstream(path_) << "{\"time\":\"20";
  Open()->Write(Submit(1), kNow);
  ASSERT_THAT(Lines(), SizeIs(2));
  EXPECT_EQ(json::parse(Lines()[1])["job"], 1);
}

TEST_F(AuditLogTest, FourOlderFilesAreKeptAndNoneIsLargerThanItMay) {
  const auto log = Open({.bytes_max = 1000});
  for (uint32_t job = 1; job <= 100; ++job) log->Write(Submit(job), kNow);
  std::string all;
  for (const char* number : {".4", ".3", ".2", ".1", ""}) {
    const std::string text = TextOf(path_ + number);
    EXPECT_LE(text.size(), 1000u);
    if (*number != '\0') {
      EXPECT_GT(text.size(), 800u);
    }
    all += text;
  }
  EXPECT_THAT(TextOf(path_), HasSubstr("\"job\":100,"));
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(dir_)) {
    ++files;
    struct stat is = {};
    ASSERT_EQ(stat(file.path().c_str(), &is), 0);
    EXPECT_EQ(is.st_mode & 07777, 0600u);
  }
  EXPECT_EQ(files, 5);
  // No line in between was lost.
  uint32_t job = 0;
  for (const absl::string_view line : absl::StrSplit(all, '\n', absl::SkipEmpty())) {
    const uint32_t found = json::parse(line)["job"];
    EXPECT_TRUE(job == 0 || found == job + 1) << found;
    job = found;
  }
}

TEST_F(AuditLogTest, AStormOfRefusedCallsIsCountedAndDoesNotHideWhatIsDone) {
  const auto log = Open({.refused_per_second = 3});
  for (int i = 0; i < 10; ++i) log->Write(Refused(), kNow);
  log->Write(Submit(1), kNow);
  log->Write(Refused(), kNow + absl::Seconds(1));
  const std::vector<std::string> lines = Lines();
  ASSERT_THAT(lines, SizeIs(5));
  EXPECT_EQ(json::parse(lines[3])["what"], "submit");
  EXPECT_EQ(json::parse(lines[3])["refused_left_out"], 7);
  EXPECT_FALSE(json::parse(lines[4]).contains("refused_left_out"));
}

TEST_F(AuditLogTest, AStormOfOneCallerHidesNoOthers) {
  const auto log = Open({.refused_per_second = 2});
  AuditEntry eves = Refused();
  eves.who = "user eve";
  for (int i = 0; i < 10; ++i) log->Write(Refused(), kNow);
  for (int i = 0; i < 3; ++i) log->Write(eves, kNow);
  const std::vector<std::string> lines = Lines();
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_EQ(json::parse(lines[1])["who"], "a stranger");
  EXPECT_EQ(json::parse(lines[2])["who"], "user eve");
  EXPECT_EQ(json::parse(lines[2])["refused_left_out"], 8);
  EXPECT_EQ(json::parse(lines[3])["who"], "user eve");
}

TEST_F(AuditLogTest, WhatCannotBeWrittenIsSaidOnceAndDoesNoHarm) {
  const auto log = Open();
  AuditEntry first = Submit(1);
  first.detail = std::string(AuditLog::kTextBytesMax, 'x');
  log->Write(first, kNow);
  // Simulates a full disk: there is room for part of a line, then for nothing. The captured text is
  // shorter than the first line.
  testing::internal::CaptureStderr();
  signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit full = before;
  full.rlim_cur = TextOf(path_).size() + 10;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  for (uint32_t job = 2; job < 5; ++job) log->Write(Submit(job), kNow);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("the audit log is not written"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  log->Write(Submit(5), kNow);
  const std::vector<std::string> lines = Lines();
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_EQ(json::parse(lines[0])["job"], 1);
  EXPECT_FALSE(json::accept(lines[1]));
  EXPECT_EQ(json::parse(lines[2])["job"], 5);
}

TEST_F(AuditLogTest, ALinkOrAFolderInItsPlaceIsRefused) {
  std::filesystem::create_symlink(dir_ + "/elsewhere", path_);
  EXPECT_FALSE(AuditLog::Open(path_).ok());
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/elsewhere"));
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(AuditLog::Open(path_).ok());
}

}  // namespace
}  // namespace strata::server
