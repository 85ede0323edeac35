#include "common/process/environment.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace strata {
namespace {

TEST(Environment, VariablesAreThoseOfTheProcess) {
  ASSERT_EQ(setenv("STRATA_ENVIRONMENT_TEST", "a=b", 1), 0);
  ASSERT_EQ(setenv("STRATA_ENVIRONMENT_EMPTY", "", 1), 0);
  const Environment environment = OwnEnvironment();
  EXPECT_EQ(environment.at("STRATA_ENVIRONMENT_TEST"), "a=b");
  EXPECT_EQ(Variable(environment, "STRATA_ENVIRONMENT_TEST"), "a=b");
  EXPECT_EQ(environment.at("STRATA_ENVIRONMENT_EMPTY"), "");
  EXPECT_EQ(Variable(environment, "STRATA_ENVIRONMENT_MISSING"), "");
}

}  // namespace
}  // namespace strata
