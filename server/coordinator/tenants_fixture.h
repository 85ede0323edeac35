#ifndef STRATA_SERVER_COORDINATOR_TENANTS_FIXTURE_H_
#define STRATA_SERVER_COORDINATOR_TENANTS_FIXTURE_H_

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/control/coordinator_client.h"
#include "common/control/keys_client.h"
#include "common/testing/short_folder.h"
#include "common/testing/test_keys.h"
#include "gtest/gtest.h"
#include "server/coordinator/access/key_store.h"
#include "server/coordinator/coordinator.h"

namespace strata::server {

// Sam, Sue and Vera are in one namespace, Rex in another. Otto, the operator, is in the default
// one.
inline constexpr char kPolicy[] = R"(
  users { name: "sam" namespace: "vision" role: SUBMIT }
  users { name: "sue" namespace: "vision" role: SUBMIT }
  users { name: "vera" namespace: "vision" role: VIEW }
  users { name: "rex" namespace: "speech" role: RUN_PROGRAMS }
  users { name: "otto" role: OPERATE }
  users { name: "ada" namespace: "vision" role: ADMIN }
  users { name: "one" role: RUN_PROGRAMS slots: 1 path_prefixes: "/data/one" }
)";

// A coordinator with that policy, over real TLS.
class TenantsTest : public ::testing::Test {
 protected:
  using CoordinatorClient = control::CoordinatorClient;
  using Credentials = control::Credentials;

  void SetUp() override {
    ASSERT_TRUE(InitKeys(State(), "lab", absl::Now()).ok());
    WritePolicy(kPolicy);
    ASSERT_NO_FATAL_FAILURE(Start());
  }
  void Start() {
    coordinator_.reset();
    Coordinator::Options options;
    options.listen = address_.empty() ? "127.0.0.1:0" : address_;
    options.also_listen = dir_ + "/own";
    options.state_dir = State();
    options.open_store = [](const std::string&) { return absl::UnavailableError("no store"); };
    coordinator_ = *Coordinator::Create(options);
    const absl::Status started = coordinator_->Start();
    ASSERT_TRUE(started.ok()) << started;
    address_ = absl::StrCat("127.0.0.1:", coordinator_->port());
  }

  std::string State() const { return dir_ + "/state"; }
  std::string OwnAddress() const { return "unix:" + dir_ + "/own"; }
  void WritePolicy(const std::string& text) {
    const std::string path = State() + "/policy.textproto";
    std::ofstream(path + ".new") << text;
    ASSERT_EQ(chmod((path + ".new").c_str(), 0644), 0);
    std::filesystem::rename(path + ".new", path);
  }
  std::string AuditLines() const {
    std::ifstream in(State() + "/audit.log");
    return {std::istreambuf_iterator<char>(in), {}};
  }

  Credentials KeysOf(const std::string& user) const {
    const absl::Time now = absl::Now();
    return Credentials::Of(keys::MakeKeyFile(*LoadKeys(State())->authority,
                                             {"lab", keys::Role::kUser, user},
                                             now - absl::Minutes(1), now + absl::Hours(1)));
  }
  std::unique_ptr<CoordinatorClient> As(const std::string& user) const {
    return CoordinatorClient::Create(
        {.coordinator = address_, .credentials = KeysOf(user), .deadline = absl::Seconds(20)});
  }
  // Calls as the coordinator's user on its host.
  std::unique_ptr<CoordinatorClient> Own() const {
    return CoordinatorClient::Create(
        {.coordinator = OwnAddress(), .credentials = {}, .deadline = absl::Seconds(20)});
  }
  control::KeysOptions KeysAs(const std::string& user) const {
    return {.coordinator = address_, .credentials = KeysOf(user), .deadline = absl::Seconds(20)};
  }

  static proto::Job Model() {
    proto::Job job;
    job.set_name("model");
    job.mutable_model()->set_zoo("mlp");
    job.mutable_data()->mutable_synthetic();
    job.set_exchange(proto::Job::NONE);
    job.mutable_trace()->set_steps(1);
    return job;
  }
  static proto::Job Program() {
    proto::Job job;
    job.set_name("program");
    job.mutable_program()->set_path("/data/one/program");
    job.set_exchange(proto::Job::NONE);
    return job;
  }
  JobId Submitted(const std::string& user, const proto::Job& job = Model()) const {
    const auto id = As(user)->Submit(job);
    EXPECT_TRUE(id.ok()) << id.status();
    return id.value_or(JobId());
  }
  std::vector<uint32_t> JobsOf(const std::string& user) const {
    const auto listed = As(user)->ListJobs();
    EXPECT_TRUE(listed.ok()) << listed.status();
    std::vector<uint32_t> ids;
    for (const proto::JobStatus& job : *listed) ids.push_back(job.job_id());
    return ids;
  }
  // Returns the result of a call that may last as long as a job; Cancelled if it lasted too long.
  static absl::Status Ended(CoordinatorClient* client, const std::function<absl::Status()>& call) {
    absl::Notification has_ended;
    std::thread watch([&] {
      if (!has_ended.WaitForNotificationWithTimeout(absl::Seconds(20))) client->StopFollowing();
    });
    const absl::Status status = call();
    has_ended.Notify();
    watch.join();
    return status;
  }
  // Returns the result of each call about a job.
  static std::vector<absl::Status> AnswersAbout(CoordinatorClient* client, JobId job) {
    return {client->GetJob(job).status(), client->Cancel(job),
            Ended(client,
                  [&] { return client->Follow(job, [](const proto::FollowEvent&) {}).status(); }),
            Ended(client, [&] { return client->GetTrace(job, [](const proto::TraceBatch&) {}); })};
  }

  const ShortFolder folder_;
  const std::string& dir_ = folder_.path();
  std::string address_;
  std::unique_ptr<Coordinator> coordinator_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_TENANTS_FIXTURE_H_
