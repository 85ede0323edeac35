// Enters a network of its own before anything starts a thread.

#include "gtest/gtest.h"
#include "tests/netns/network.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  strata::tests::EnterOwnNetwork();
  return RUN_ALL_TESTS();
}
