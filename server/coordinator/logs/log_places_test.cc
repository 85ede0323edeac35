#include "server/coordinator/logs/log_places.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Nodes of two ranks each.
proto::JobStatus On(const std::vector<std::string>& workers) {
  proto::JobStatus job;
  for (const std::string& worker : workers) {
    proto::JobNodeStatus* node = job.add_nodes();
    node->set_node(static_cast<uint32_t>(job.nodes_size()) - 1);
    node->set_first_rank(2 * node->node());
    node->set_ranks(2);
    node->set_daemon(worker);
  }
  return job;
}

TEST(LogPlaces, ANodeThatGoesOnElsewhereIsSaidOnce) {
  LogPlaces places(On({"w0", "w1"}), {});
  EXPECT_THAT(places.News(On({"w0", "w1"})), IsEmpty());
  EXPECT_THAT(places.News(On({"w0", ""})), IsEmpty()) << "it waits";
  EXPECT_THAT(places.News(On({"w0", "w1"})), IsEmpty()) << "and goes on where it was";
  EXPECT_THAT(places.News(On({"w0", "w5"})),
              ElementsAre("node 1 is now on worker w5, whose logs are not followed here: ask again "
                          "for them"));
  EXPECT_THAT(places.News(On({"w0", "w5"})), IsEmpty());
}

TEST(LogPlaces, ANodeThatJoinsIsSaidToWhoFollowsAll) {
  LogPlaces all(On({"w0"}), {});
  EXPECT_THAT(all.News(On({"w0", "w1"})), ElementsAre("node 1 is now on worker w1, whose logs "
                                                      "are not followed here: ask again for them"));
  proto::ReadLogs wanted;
  wanted.add_nodes(0);
  EXPECT_THAT(LogPlaces(On({"w0"}), wanted).News(On({"w0", "w1"})), IsEmpty());
}

TEST(LogPlaces, OfNodesThatNobodyAskedForNothingIsSaid) {
  proto::ReadLogs wanted;
  wanted.add_ranks(3);
  LogPlaces places(On({"w0", "w1"}), wanted);
  EXPECT_THAT(places.News(On({"w7", "w1"})), IsEmpty());
  EXPECT_EQ(places.News(On({"w7", "w8"})).size(), 1u);
}

}  // namespace
}  // namespace strata::server
