#include "common/process/undumpable.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>

namespace strata {
namespace {

class Undumpable : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(prctl(PR_GET_DUMPABLE), 1); }
  void TearDown() override { EXPECT_EQ(prctl(PR_SET_DUMPABLE, 1), 0); }
};

TEST_F(Undumpable, IsWhatAProcessBecomes) {
  MakeUndumpable({});
  EXPECT_EQ(prctl(PR_GET_DUMPABLE), 0);
}

TEST_F(Undumpable, AProcessStaysAsItIsForWhoDebugsIt) {
  MakeUndumpable({{kDumpable, "1"}});
  EXPECT_EQ(prctl(PR_GET_DUMPABLE), 1);
}

}  // namespace
}  // namespace strata
