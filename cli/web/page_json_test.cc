#include "cli/web/page_json.h"

#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "cli/render/render.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {

namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

const absl::Time kTaken = absl::FromUnixMillis(1'700'000'000'000);
const absl::Time kSceneJsonNow = kTaken + absl::Milliseconds(250);

// A job that runs on w1 and waits for its rank 1.
JobScene MakeJob(uint32_t id) {
  JobScene job;
  job.status.set_job_id(id);
  job.status.set_name("lenet");
  job.status.set_state(proto::RUNNING);
  proto::Wait* wait = job.status.add_waits();
  wait->set_rank(1);
  wait->set_doing("stopped by a signal");
  job.watched_from_step = 10;
  for (int i = 0; i < 50; ++i) {
    job.course.push_back({.step = 10u * i, .elapsed_s = 0.5 * i, .loss = 1.0 * i});
    job.course.back().staleness = {1, 2};
  }
  job.ranks[1] = {{.end_step = 10, .waiting_share = 0.5, .samples_per_s = 8}};
  return job;
}

ClusterScene MakeScene(JobScene job) {
  ClusterScene scene;
  scene.taken = kTaken;
  scene.coordinator = "head:7070";
  scene.nodes.set_cluster_id("c1");
  scene.nodes.set_security("keys");
  for (const char* name : {"w1", "w2"}) {
    proto::DaemonStatus* daemon = scene.nodes.add_daemons();
    daemon->set_name(name);
    daemon->set_role(proto::WORKER);
  }
  scene.nodes.mutable_daemons(0)->add_jobs(job.status.job_id());
  scene.jobs.push_back(std::make_shared<const JobScene>(std::move(job)));
  return scene;
}

TEST(SceneJson, AClusterHasItsDaemonsAsNodesJsonAndItsJobsInShort) {
  const ClusterScene scene = MakeScene(MakeJob(3));
  const std::string text = ClusterDocument(scene, /*has_logs=*/true, kSceneJsonNow);
  EXPECT_EQ(text.find('\n'), std::string::npos) << "an event is one line";
  const Json json = Json::parse(text);
  EXPECT_EQ(json["now_ms"], 1'700'000'000'250);
  EXPECT_EQ(json["taken_ms"], 1'700'000'000'000);
  EXPECT_EQ(json["problem"], "");
  EXPECT_EQ(json["coordinator"], "head:7070");
  EXPECT_EQ(json["cluster_id"], "c1");
  EXPECT_EQ(json["security"], "keys");
  const Json nodes = Json::parse(NodesJson(scene.nodes));
  EXPECT_EQ(json["daemons"], nodes["daemons"]);
  EXPECT_EQ(json["resources"], nodes["resources"]);
  EXPECT_EQ(json["coordinator_resources"], nodes["coordinator"]["resources"]);
  ASSERT_EQ(json["jobs"].size(), 1u);
  const Json& job = json["jobs"][0];
  EXPECT_EQ(job["job_id"], 3);
  EXPECT_EQ(job["state"], "running");
  EXPECT_EQ(job["waits"][0]["doing"], "stopped by a signal");
  ASSERT_EQ(job["spark"].size(), 40u);
  EXPECT_EQ(job["spark"][0], 10.0);
  EXPECT_EQ(job["spark"][39], 49.0);
}

TEST(SceneJson, BeforeTheFirstAnswerNothingIsKnownButTheProblem) {
  ClusterScene scene;
  scene.problem = "coordinator at head:7070 cannot be reached";
  const Json json = Json::parse(ClusterDocument(scene, /*has_logs=*/true, kSceneJsonNow));
  EXPECT_TRUE(json["taken_ms"].is_null());
  EXPECT_EQ(json["problem"], "coordinator at head:7070 cannot be reached");
  EXPECT_EQ(json["jobs"], Json::array());
}

TEST(SceneJson, AJobHasItsStatusAsStatusJsonItsCourseAndItsRanks) {
  const ClusterScene scene = MakeScene(MakeJob(3));
  const Json json = Json::parse(JobDocument(scene, 3, kSceneJsonNow));
  EXPECT_EQ(json["status"], Json::parse(JobJson(scene.jobs[0]->status)));
  EXPECT_EQ(json["watched_from_step"], 10);
  for (const char* name :
       {"step", "elapsed_s", "loss", "samples_per_s", "waiting_share", "hidden_share",
        "test_accuracy", "lr", "bytes_pushed", "bytes_answered", "staleness"}) {
    EXPECT_EQ(json["course"][name].size(), 50u) << name;
  }
  EXPECT_EQ(json["course"]["step"][49], 490);
  EXPECT_EQ(json["course"]["staleness"][0], Json::parse("[1,2]"));
  EXPECT_EQ(json["rank_windows"], Json::parse(R"([{"rank":1,"end_step":[10],"waiting_share":[0.5],)"
                                              R"("samples_per_s":[8.0]}])"));
  EXPECT_EQ(JobDocument(scene, 4, kSceneJsonNow), "");
}

TEST(SceneJson, AJobTellsWhatHasHappenedToIt) {
  JobScene job = MakeJob(3);
  job.status.add_restarts()->set_reason("killed");
  job.status.add_replacements()->set_to("w2");
  job.status.add_nodes_changes()->add_joined(5);
  const Json json = Json::parse(JobDocument(MakeScene(std::move(job)), 3, kSceneJsonNow));
  EXPECT_EQ(json["restarts"][0]["reason"], "killed");
  EXPECT_EQ(json["replacements"][0]["to"], "w2");
  EXPECT_EQ(json["nodes_changes"][0]["joined"], Json::parse("[5]"));
}

TEST(SceneJson, WhatHasNoNumberIsNull) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  JobScene job = MakeJob(3);
  job.course = {{.loss = kNan,
                 .samples_per_s = kInfinity,
                 .hidden_share = -1,
                 .test_accuracy = -1,
                 .lr = -kInfinity}};
  job.ranks[1] = {{.end_step = 1, .waiting_share = kNan, .samples_per_s = kInfinity}};
  job.status.mutable_progress()->set_loss(kNan);
  job.status.mutable_progress()->set_samples_per_s(kInfinity);
  (*job.status.mutable_progress()->mutable_values())["x"] = kNan;
  const ClusterScene scene = MakeScene(std::move(job));
  const Json json = Json::parse(JobDocument(scene, 3, kSceneJsonNow));
  for (const char* name : {"loss", "samples_per_s", "hidden_share", "test_accuracy", "lr"}) {
    EXPECT_TRUE(json["course"][name][0].is_null()) << name;
  }
  EXPECT_TRUE(json["rank_windows"][0]["waiting_share"][0].is_null());
  EXPECT_TRUE(json["status"]["progress"]["loss"].is_null());
  const Json cluster = Json::parse(ClusterDocument(scene, /*has_logs=*/true, kSceneJsonNow));
  EXPECT_EQ(cluster["jobs"][0]["spark"], Json::array());
}

TEST(SceneJson, InvalidUtf8IsReplaced) {
  JobScene job = MakeJob(3);
  job.status.set_reason("cannot read /data/\xff\xfe");
  const ClusterScene scene = MakeScene(std::move(job));
  for (const std::string& text : {ClusterDocument(scene, /*has_logs=*/true, kSceneJsonNow),
                                  JobDocument(scene, 3, kSceneJsonNow)}) {
    EXPECT_TRUE(Json::accept(text));
    EXPECT_THAT(text, HasSubstr("cannot read /data/\xef\xbf\xbd"));
  }
  EXPECT_TRUE(Json::accept(ErrorDocument("there is no daemon \xff")));
}

TEST(SceneJson, ADaemonHasTheJobsThatRunThere) {
  const ClusterScene scene = MakeScene(MakeJob(3));
  const Json one = Json::parse(DaemonDocument(scene, "w1", kSceneJsonNow));
  EXPECT_EQ(one["daemon"]["name"], "w1");
  ASSERT_EQ(one["jobs"].size(), 1u);
  EXPECT_EQ(one["jobs"][0]["job_id"], 3);
  EXPECT_EQ(Json::parse(DaemonDocument(scene, "w2", kSceneJsonNow))["jobs"], Json::array());
  EXPECT_EQ(DaemonDocument(scene, "w3", kSceneJsonNow), "");
}

TEST(LogJson, AChoiceIsReadAsThePageWritesIt) {
  EXPECT_EQ(ParseLogChoice("3"), (LogChoice{.job = 3}));
  EXPECT_EQ(ParseLogChoice("3:rank:12"), (LogChoice{.job = 3, .rank = 12}));
  EXPECT_EQ(ParseLogChoice("4:aggregators"), (LogChoice{.job = 4, .aggregators = true}));
  for (const char* text : {"", "x", "-1", "3:", "3:rank", "3:rank:", "3:rank:x", "3:rank:1:2",
                           "3:aggregators:1", "99999999999"}) {
    EXPECT_EQ(ParseLogChoice(text), std::nullopt) << text;
  }
}

TEST(LogJson, NewsAreWrittenWithWhatTheyAreOf) {
  const LogNews news{.anew = true,
                     .passed_over = 2,
                     .lines = {{"1", "loss \"0.5\" \xff"}, {"", "gone", true}},
                     .problem = "why",
                     .ended = true};
  EXPECT_EQ(LogDocument({.job = 3, .rank = 1}, news),
            R"({"choice":"3:rank:1","anew":true,"passed_over":2,"lines":[["1","loss \"0.5\" )"
            "\xef\xbf\xbd"
            R"("],["","gone",true]],"problem":"why","ended":true})");
  EXPECT_EQ(LogDocument({.job = 3, .aggregators = true}, {}),
            R"({"choice":"3:aggregators","anew":false,"passed_over":0,"lines":[],"problem":"",)"
            R"("ended":false})");
  EXPECT_EQ(LogDocument({.job = 3}, {}).substr(0, 14), R"({"choice":"3",)");
}

}  // namespace

}  // namespace strata::cli
