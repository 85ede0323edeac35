// The table of who may do what, cell by cell.
#include "server/coordinator/access/caller.h"

#include <map>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace strata::server {
namespace {

using keys::Role;

Caller Member(Role role, const std::string& name = "n") {
  return {Caller::Kind::kMember, {"test", role, name}, absl::UnixEpoch()};
}

constexpr Right kRights[] = {Right::kJoin, Right::kRenew, Right::kServe, Right::kUse, Right::kRule};

// Which rights, in the order above: "j", "r", "s", "u", "R", or "." each.
std::string RightsOf(const Caller& caller) {
  std::string rights;
  const char* letter = "jrsuR";
  for (const Right right : kRights) {
    const absl::Status may = Allow(caller, right);
    EXPECT_TRUE(may.ok() || absl::IsPermissionDenied(may) ||
                (absl::IsUnauthenticated(may) && caller.kind == Caller::Kind::kStranger))
        << may;
    rights += may.ok() ? *letter : '.';
    ++letter;
  }
  return rights;
}

TEST(Allow, SaysForEveryCallerAndRightWhatTheTableSays) {
  EXPECT_EQ(RightsOf({}), "j....");
  EXPECT_EQ(RightsOf(Member(Role::kWorker)), "jrs..");
  EXPECT_EQ(RightsOf(Member(Role::kServer)), "jrs..");
  EXPECT_EQ(RightsOf(Member(Role::kUser)), "jr.u.");
  EXPECT_EQ(RightsOf(Member(Role::kCoordinator)), "j....");
  EXPECT_EQ(RightsOf({.kind = Caller::Kind::kOwner}), "jrsuR");
}

proto::Register Registration(proto::Role role, const std::string& name) {
  proto::Register registration;
  registration.set_role(role);
  registration.set_name(name);
  return registration;
}

TEST(AllowRegistration, ACertificateRegistersItsOwnNameAndRoleOnly) {
  const Caller worker = Member(Role::kWorker, "w1"), server = Member(Role::kServer, "s1");
  EXPECT_TRUE(AllowRegistration(worker, Registration(proto::WORKER, "w1")).ok());
  EXPECT_TRUE(AllowRegistration(server, Registration(proto::SERVER, "s1")).ok());
  for (const auto& [caller, registration] :
       {std::pair(worker, Registration(proto::WORKER, "w2")),
        std::pair(worker, Registration(proto::SERVER, "w1")),
        std::pair(worker, Registration(proto::ROLE_UNSPECIFIED, "w1")),
        std::pair(server, Registration(proto::WORKER, "s1")),
        std::pair(Member(Role::kUser, "u"), Registration(proto::WORKER, "u")),
        std::pair(Member(Role::kCoordinator, "c"), Registration(proto::SERVER, "c"))}) {
    EXPECT_TRUE(absl::IsPermissionDenied(AllowRegistration(caller, registration)))
        << CallerText(caller);
  }
  EXPECT_TRUE(
      AllowRegistration({.kind = Caller::Kind::kOwner}, Registration(proto::WORKER, "anything"))
          .ok());
  EXPECT_TRUE(absl::IsUnauthenticated(AllowRegistration({}, Registration(proto::WORKER, "w1"))));
}

}  // namespace
}  // namespace strata::server
