#include "server/coordinator/members/seen_registrations.h"

#include "gtest/gtest.h"

namespace strata::server {
namespace {

TEST(SeenRegistrations, KnowsTheHighestAttemptOfEveryDaemon) {
  SeenRegistrations seen;
  EXPECT_EQ(seen.NewestAttempt(7), 0u);
  seen.Note(7, 1);
  seen.Note(8, 4);
  seen.Note(7, 2);
  EXPECT_EQ(seen.NewestAttempt(7), 2u);
  EXPECT_EQ(seen.NewestAttempt(8), 4u);
}

TEST(SeenRegistrations, GivesTheStoreWhatIsNewOnceTheOldestFirst) {
  SeenRegistrations seen;
  seen.Restore({{.daemon_id = 1, .attempt = 9}});
  EXPECT_TRUE(seen.Unsaved().empty());
  EXPECT_EQ(seen.NewestAttempt(1), 9u);
  seen.Note(7, 1);
  seen.Note(8, 4);
  seen.Note(7, 2);
  ASSERT_EQ(seen.Unsaved().size(), 2u);
  EXPECT_EQ(seen.Unsaved()[0].daemon_id, 8u);
  EXPECT_EQ(seen.Unsaved()[1].daemon_id, 7u);
  EXPECT_EQ(seen.Unsaved()[1].attempt, 2u);
  seen.Saved();
  EXPECT_TRUE(seen.Unsaved().empty());
}

TEST(SeenRegistrations, ForgetsWhoRegisteredLongestAgo) {
  SeenRegistrations seen(/*max=*/2);
  seen.Note(1, 1);
  seen.Note(2, 1);
  seen.Note(1, 2);
  seen.Note(3, 1);
  EXPECT_EQ(seen.NewestAttempt(2), 0u);
  EXPECT_EQ(seen.NewestAttempt(1), 2u);
  EXPECT_EQ(seen.Unsaved().size(), 2u);
}

}  // namespace
}  // namespace strata::server
