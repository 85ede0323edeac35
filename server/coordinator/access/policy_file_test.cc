#include "server/coordinator/access/policy_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using proto::UserPolicy;
using ::testing::HasSubstr;

class PolicyFileTest : public ::testing::Test {
 protected:
  PolicyFileTest()
      : dir_(absl::StrCat(::testing::TempDir(), "/policy-",
                          ::testing::UnitTest::GetInstance()->current_test_info()->name(), "-",
                          absl::ToUnixNanos(absl::Now()))),
        path_(dir_ + "/policy.textproto") {
    std::filesystem::create_directories(dir_);
  }
  ~PolicyFileTest() override { std::filesystem::remove_all(dir_); }

  void Write(const std::string& text) {
    std::ofstream(path_) << text;
    ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  }
  UserRole RoleOf(PolicyFile* file, const std::string& user) {
    now_ += PolicyFile::kLookEvery;
    return file->Current(now_)->RightsOf(user, nullptr).role;
  }

  const std::string dir_, path_;
  absl::Time now_ = absl::Now();
};

constexpr char kViewer[] = "users { name: 'ada' role: VIEW }";
constexpr char kOperator[] = "users { name: 'ada' role: OPERATE }";

TEST_F(PolicyFileTest, IsReadAnewOnceItHasChanged) {
  Write(kViewer);
  const auto file = PolicyFile::Open(path_, /*must_exist=*/true);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(RoleOf(file->get(), "ada"), UserPolicy::VIEW);
  Write(kOperator);
  EXPECT_EQ(RoleOf(file->get(), "ada"), UserPolicy::OPERATE);
}

TEST_F(PolicyFileTest, IsLookedAtNoMoreOftenThanOnceASecond) {
  Write(kViewer);
  const auto file = PolicyFile::Open(path_, true);
  ASSERT_EQ(RoleOf(file->get(), "ada"), UserPolicy::VIEW);
  Write(kOperator);
  const auto role = [&](absl::Duration later) {
    return (*file)->Current(now_ + later)->RightsOf("ada", nullptr).role;
  };
  EXPECT_EQ(role(absl::Milliseconds(999)), UserPolicy::VIEW);
  EXPECT_EQ(role(absl::Seconds(1)), UserPolicy::OPERATE);
}

TEST_F(PolicyFileTest, OneThatIsBrokenLaterLeavesTheOneBefore) {
  Write(kViewer);
  const auto file = PolicyFile::Open(path_, true);
  testing::internal::CaptureStderr();
  Write("users { name: 'ada' role: ");
  EXPECT_EQ(RoleOf(file->get(), "ada"), UserPolicy::VIEW);
  EXPECT_EQ(RoleOf(file->get(), "eve"), UserPolicy::NONE);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr(path_ + ":1:"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  std::filesystem::remove(path_);
  EXPECT_EQ(RoleOf(file->get(), "eve"), UserPolicy::NONE) << "a file that is gone opens nothing";
  Write(kOperator);
  EXPECT_EQ(RoleOf(file->get(), "ada"), UserPolicy::OPERATE);
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  EXPECT_EQ(RoleOf(file->get(), "ada"), UserPolicy::OPERATE);
}

TEST_F(PolicyFileTest, OneThatListsNobodyAnyMoreOpensNothing) {
  for (const char* before : {kViewer, "default_user { role: VIEW }"}) {
    Write(before);
    const auto file = PolicyFile::Open(path_, true);
    ASSERT_TRUE(file.ok()) << file.status();
    const UserRole role = RoleOf(file->get(), "eve");
    testing::internal::CaptureStderr();
    // Simulates a file that is being rewritten in place.
    for (const char* text : {"", "allow_plain: true"}) {
      Write(text);
      EXPECT_EQ(RoleOf(file->get(), "eve"), role);
      EXPECT_EQ(RoleOf(file->get(), "eve"), role) << "it is said once";
      EXPECT_FALSE((*file)->Current(now_)->allow_plain());
    }
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_THAT(log, HasSubstr(path_ + ": it lists nobody any more"));
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2) << log;
    Write(kOperator);
    EXPECT_EQ(RoleOf(file->get(), "ada"), UserPolicy::OPERATE);
    Write("default_user { role: RUN_PROGRAMS }");
    EXPECT_EQ(RoleOf(file->get(), "eve"), UserPolicy::RUN_PROGRAMS);
  }
}

TEST_F(PolicyFileTest, OneThatNeedNotExistIsReadOnceItDoes) {
  EXPECT_TRUE(absl::IsNotFound(PolicyFile::Open(path_, /*must_exist=*/true).status()));
  const auto file = PolicyFile::Open(path_, /*must_exist=*/false);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(RoleOf(file->get(), "eve"), UserPolicy::RUN_PROGRAMS);
  Write(kViewer);
  EXPECT_EQ(RoleOf(file->get(), "eve"), UserPolicy::NONE);
}

TEST_F(PolicyFileTest, OneThatOthersMayChangeIsRefusedInOneLine) {
  const auto refused = [&] {
    const absl::Status status = PolicyFile::Open(path_, /*must_exist=*/false).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
    return std::string(status.message());
  };
  Write(kViewer);
  for (const mode_t mode : {0664, 0646, 0622}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    EXPECT_THAT(refused(), HasSubstr("chmod go-w " + path_));
  }
  ASSERT_EQ(chmod(path_.c_str(), 0444), 0);
  EXPECT_TRUE(PolicyFile::Open(path_, true).ok());
  if (geteuid() == 0) {
    ASSERT_EQ(chown(path_.c_str(), 12345, 0), 0);
    EXPECT_THAT(refused(), HasSubstr("belongs to user 12345"));
  }
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  refused();
}

TEST_F(PolicyFileTest, OneThatIsWrongAtTheStartIsNotTaken) {
  Write("users { name: 'ada'\n rol: VIEW }");
  const absl::Status status = PolicyFile::Open(path_, false).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_ + ":2:"));
}

}  // namespace
}  // namespace strata::server
