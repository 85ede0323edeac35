#include "server/coordinator/placement/job_protection.h"

#include <gtest/gtest.h>

#include <string>

namespace strata::server {
namespace {

using proto::Job;

// Returns the protection that a job gets for its request, or "refused".
std::string Settled(const ProtectionRules& rules, Job::Protection asked) {
  Job job;
  job.set_protection(asked);
  const absl::Status settled = SettleProtection(rules, &job);
  return settled.ok() ? Job::Protection_Name(job.protection()) : "refused";
}

TEST(JobProtection, TheClusterDecides) {
  const ProtectionRules none;
  EXPECT_EQ(Settled(none, Job::BY_CLUSTER), "PLAIN");
  EXPECT_EQ(Settled(none, Job::ENCRYPT), "refused");
  EXPECT_EQ(Settled(none, Job::SIGN), "refused");
  EXPECT_EQ(Settled(none, Job::PLAIN), "PLAIN");
  const ProtectionRules socket = {.keeps_secrets = true};
  EXPECT_EQ(Settled(socket, Job::BY_CLUSTER), "PLAIN");
  EXPECT_EQ(Settled(socket, Job::ENCRYPT), "ENCRYPT");
  EXPECT_EQ(Settled(socket, Job::SIGN), "SIGN");
  const ProtectionRules keys = {.has_keys = true, .keeps_secrets = true};
  EXPECT_EQ(Settled(keys, Job::BY_CLUSTER), "ENCRYPT");
  EXPECT_EQ(Settled(keys, Job::ENCRYPT), "ENCRYPT");
  EXPECT_EQ(Settled(keys, Job::SIGN), "SIGN");
  EXPECT_EQ(Settled(keys, Job::PLAIN), "refused");
  EXPECT_EQ(Settled({.has_keys = true, .keeps_secrets = true, .allows_plain = true}, Job::PLAIN),
            "PLAIN");
}

TEST(JobProtection, TheRefusalSaysWhatToDo) {
  Job job;
  job.set_protection(Job::SIGN);
  EXPECT_EQ(SettleProtection({}, &job).message(),
            "protection: SIGN needs a cluster with keys, and this coordinator runs with "
            "--insecure");
  job.set_protection(Job::PLAIN);
  EXPECT_EQ(SettleProtection({.has_keys = true}, &job).message(),
            "protection: PLAIN is not allowed here: the cluster's policy has no `allow_plain: "
            "true`");
}

TEST(JobProtection, WhatStrataCannotProtectDoesNotPassUnnoticed) {
  Job job;
  job.set_exchange(Job::NCCL);
  const ProtectionRules keys = {.has_keys = true};
  for (const Job::Protection protection : {Job::ENCRYPT, Job::SIGN}) {
    job.set_protection(protection);
    EXPECT_FALSE(AllowForeignTraffic(keys, job).ok());
    EXPECT_TRUE(AllowForeignTraffic({.has_keys = true, .trusts_network = true}, job).ok());
  }
  job.set_protection(Job::PLAIN);
  EXPECT_TRUE(AllowForeignTraffic(keys, job).ok());
  job.set_protection(Job::ENCRYPT);
  job.set_exchange(Job::RING);
  EXPECT_TRUE(AllowForeignTraffic(keys, job).ok());
}

}  // namespace
}  // namespace strata::server
