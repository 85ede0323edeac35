#include "cli/render/render_checkpoints.h"

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Lines(const proto::JobStatus& job) {
  std::vector<std::string> lines;
  for (const Row& row : CheckpointRows(job)) {
    lines.push_back(absl::StrJoin(row, "|"));
  }
  return lines;
}

proto::JobStatus Job() {
  proto::JobStatus job;
  job.mutable_job()->mutable_checkpoint()->set_dir("/c");
  job.mutable_job()->mutable_checkpoint()->set_every_steps(10);
  job.mutable_checkpoints();
  return job;
}

TEST(RenderCheckpoints, AJobWithoutAnySaysNothing) {
  EXPECT_THAT(Lines({}), IsEmpty());
  nlohmann::ordered_json json;
  AddCheckpoints({}, &json);
  EXPECT_TRUE(json.is_null());
}

TEST(RenderCheckpoints, NoneIsCompleteAtFirst) {
  EXPECT_THAT(Lines(Job()), ElementsAre("  checkpoints|every 10 steps to /c: none complete yet"));
  nlohmann::ordered_json json;
  AddCheckpoints(Job(), &json);
  EXPECT_EQ(json.dump(), R"({"checkpoints":{"dir":"/c","complete":0,"failed":0,"problem":"",)"
                         R"("passed_over":[]}})");
}

TEST(RenderCheckpoints, AllThatThereIsToSayIsSaid) {
  proto::JobStatus job = Job();
  proto::CheckpointStatus& checkpoints = *job.mutable_checkpoints();
  checkpoints.set_complete(2);
  checkpoints.set_newest_step(20);
  checkpoints.set_newest_ms(3661000);
  checkpoints.set_newest_bytes(2000);
  checkpoints.set_failed(1);
  checkpoints.set_problem("step 30: no space");
  checkpoints.set_writing_step(40);
  checkpoints.set_objects_written(1);
  checkpoints.set_objects(2);
  checkpoints.set_resumed_dir("/b");
  checkpoints.set_resumed_step(10);
  checkpoints.add_passed_over("clock-15: torn");
  proto::RestartStatus* restart = job.add_restarts();
  restart->set_failed_ms(3600000);
  restart->set_reason("boom");
  restart->set_step(10);
  EXPECT_THAT(Lines(job),
              ElementsAre("  goes on from|step 10 in /b", "  passed over|clock-15: torn",
                          "  checkpoints|every 10 steps to /c: newest of step 20 (2.00 kB at "
                          "01:01:01 UTC), 2 complete",
                          "|step 40: 1 of 2 objects written", "|1 failed: step 30: no space",
                          "  restart 1|01:00:00 UTC, from step 10: boom"));
  nlohmann::ordered_json json;
  AddCheckpoints(job, &json);
  EXPECT_EQ(json.dump(),
            R"({"checkpoints":{"dir":"/c","complete":2,"failed":1,"problem":"step 30: no space",)"
            R"("newest":{"step":20,"written_ms":3661000,"bytes":2000},)"
            R"("writing":{"step":40,"objects_written":1,"objects":2},)"
            R"("resumed":{"dir":"/b","step":10},"passed_over":["clock-15: torn"]},)"
            R"("restarts":[{"failed_ms":3600000,"reason":"boom","step":10}]})");
}

TEST(RenderCheckpoints, AJobThatOnlyGoesOnSaysFromWhat) {
  proto::JobStatus job;
  job.mutable_checkpoints()->set_resumed_dir("/b");
  job.mutable_checkpoints()->set_resumed_step(10);
  EXPECT_THAT(Lines(job), ElementsAre("  goes on from|step 10 in /b"));
  nlohmann::ordered_json json;
  AddCheckpoints(job, &json);
  EXPECT_EQ(json.dump(), R"({"checkpoints":{"resumed":{"dir":"/b","step":10},"passed_over":[]}})");
}

TEST(RenderCheckpoints, NodesThatJoinAndLeaveAreNamedWithTheStep) {
  proto::JobStatus job;
  proto::NodesChange* change = job.add_nodes_changes();
  change->set_decided_ms(3600000);
  change->set_step(40);
  change->add_joined(2);
  change->add_joined(3);
  change->add_left(0);
  change->set_ranks(3);
  change->set_reason("worker w1 is being drained");
  EXPECT_THAT(Lines(job),
              ElementsAre("  nodes 1|01:00:00 UTC, nodes 2, 3 join, node 0 leaves with step 40: "
                          "3 ranks: worker w1 is being drained"));
  nlohmann::ordered_json json;
  AddCheckpoints(job, &json);
  EXPECT_EQ(json["nodes_changes"].dump(),
            R"([{"decided_ms":3600000,"step":40,"joined":[2,3],"left":[0],"ranks":3,)"
            R"("reason":"worker w1 is being drained"}])");
}

TEST(RenderCheckpoints, NodesThatWereReplacedAreNamedWithWhereTheyWent) {
  proto::JobStatus job;
  job.set_state(proto::RUNNING);
  proto::ReplacementStatus* one = job.add_replacements();
  one->set_lost_ms(3600000);
  one->set_node(2);
  one->set_from("w1");
  one->set_to("w3");
  one->set_step(118);
  one->set_reason("boom");
  proto::ReplacementStatus* waits = job.add_replacements();
  waits->set_lost_ms(3661000);
  waits->set_from("w2");
  waits->set_reason("w2 is lost");
  EXPECT_THAT(Lines(job),
              ElementsAre("  replaced 1|01:00:00 UTC, node 2 (w1 -> w3), from step 118: boom",
                          "  replaced 2|01:01:01 UTC, node 0 (w2, waits for another worker): "
                          "w2 is lost"));
  nlohmann::ordered_json json;
  AddCheckpoints(job, &json);
  EXPECT_EQ(json["replacements"].dump(),
            R"([{"lost_ms":3600000,"reason":"boom","node":2,"from":"w1","to":"w3","step":118},)"
            R"({"lost_ms":3661000,"reason":"w2 is lost","node":0,"from":"w2","to":"","step":0}])");
  job.set_state(proto::FAILED);
  EXPECT_THAT(Lines(job)[1], testing::HasSubstr("node 0 (w2, no other worker): "));
}

}  // namespace
}  // namespace strata::cli
