#include "cli/options/chrome_trace.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {

namespace {

using proto::TraceEvent;
using ::testing::ElementsAre;

// Chunks of 256 elements, the last of 100.
proto::JobStatus SomeJob() {
  proto::JobStatus job;
  job.set_job_id(3);
  job.set_name("x \"y\"");
  job.set_elements(612);
  job.set_chunk_elements(256);
  return job;
}

proto::TraceBatch Batch(const std::string& process, const std::string& host = "w0") {
  proto::TraceBatch batch;
  batch.set_process(process);
  batch.set_host(host);
  return batch;
}

void Add(proto::TraceBatch* batch, TraceEvent::Phase phase, uint32_t chunk, uint64_t clock,
         uint64_t start_us, uint32_t duration_us, uint32_t node = 0) {
  TraceEvent* event = batch->add_events();
  event->set_phase(phase);
  event->set_chunk(chunk);
  event->set_clock(clock);
  event->set_start_us(start_us);
  event->set_duration_us(duration_us);
  event->set_node(node);
}

TEST(ChromeTrace, EachProcessHasARowAndWaitingChunksAreAsynchronous) {
  proto::TraceBatch shard = Batch("server s0 shard 1", "s0");
  Add(&shard, TraceEvent::APPLY, 2, 7, 1'000'060, 9, 1);
  Add(&shard, TraceEvent::SERVER_WAIT, 2, 7, 1'000'050, 10, 1);
  proto::TraceBatch node = Batch("node 0 aggregator");
  Add(&node, TraceEvent::READY, 0, 7, 1'000'000, 20);
  Add(&node, TraceEvent::SUM, 0, 7, 1'000'020, 5);
  proto::TraceBatch rank = Batch("node 0 rank 1");
  Add(&rank, TraceEvent::WAIT, 1, 7, 1'000'010, 4);
  Add(&rank, TraceEvent::FORWARD, 0, 7, 1'000'010, 30);
  EXPECT_EQ(ChromeTrace({shard, node, rank}, SomeJob()),
            R"({"displayTimeUnit":"ms","otherData":{"job":"3","name":"x \"y\"",)"
            R"("start_unix_us":"1000000","left_out":"0"},"traceEvents":[
{"ph":"M","name":"process_name","pid":1,"tid":1,"args":{"name":"node 0 aggregator"}},
{"ph":"M","name":"process_labels","pid":1,"tid":1,"args":{"labels":"w0"}},
{"ph":"M","name":"process_sort_index","pid":1,"tid":1,"args":{"sort_index":1}},
{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"exchange"}},
{"ph":"b","name":"ready","cat":"chunk","pid":1,"tid":1,"id":"1","ts":0,)"
            R"("args":{"clock":7,"chunk":0,"bytes":1024}},
{"ph":"e","name":"ready","cat":"chunk","pid":1,"tid":1,"id":"1","ts":20},
{"ph":"X","name":"sum","cat":"chunk","pid":1,"tid":1,"ts":20,"dur":5,)"
            R"("args":{"clock":7,"chunk":0,"bytes":1024}},
{"ph":"M","name":"process_name","pid":2,"tid":2,"args":{"name":"node 0 rank 1"}},
{"ph":"M","name":"process_labels","pid":2,"tid":2,"args":{"labels":"w0"}},
{"ph":"M","name":"process_sort_index","pid":2,"tid":2,"args":{"sort_index":2}},
{"ph":"M","name":"thread_name","pid":2,"tid":2,"args":{"name":"steps"}},
{"ph":"X","name":"forward","cat":"step","pid":2,"tid":2,"ts":10,"dur":30,"args":{"clock":7}},
{"ph":"X","name":"wait","cat":"step","pid":2,"tid":2,"ts":10,"dur":4,)"
            R"("args":{"clock":7,"chunk":1,"bytes":1024}},
{"ph":"M","name":"process_name","pid":3,"tid":3,"args":{"name":"server s0 shard 1"}},
{"ph":"M","name":"process_labels","pid":3,"tid":3,"args":{"labels":"s0"}},
{"ph":"M","name":"process_sort_index","pid":3,"tid":3,"args":{"sort_index":3}},
{"ph":"M","name":"thread_name","pid":3,"tid":3,"args":{"name":"shard"}},
{"ph":"b","name":"server wait","cat":"chunk","pid":3,"tid":3,"id":"2","ts":50,)"
            R"("args":{"clock":7,"chunk":2,"bytes":400,"node":1}},
{"ph":"e","name":"server wait","cat":"chunk","pid":3,"tid":3,"id":"2","ts":60},
{"ph":"X","name":"apply","cat":"chunk","pid":3,"tid":3,"ts":60,"dur":9,)"
            R"("args":{"clock":7,"chunk":2,"bytes":400,"node":1}}
]}
)");
}

TEST(ChromeTrace, WhatDevicesDoHasRowsOfItsOwnBelowTheProcess) {
  proto::TraceBatch node = Batch("node 0 aggregator");
  const auto add = [&](TraceEvent::Phase phase, uint64_t start_us, uint32_t device) {
    Add(&node, phase, 2, 7, start_us, 10);
    node.mutable_events(node.events_size() - 1)->set_device(device);
  };
  add(TraceEvent::DECODE, 150, 1);
  add(TraceEvent::TO_DEVICE, 140, 2);
  add(TraceEvent::TO_DEVICE, 140, 1);
  add(TraceEvent::DECODE, 130, 0);
  add(TraceEvent::TO_HOST, 120, 1);
  add(TraceEvent::ENCODE, 110, 1);
  add(TraceEvent::SUM, 100, 1);
  proto::TraceBatch rank = Batch("node 0 rank 1");
  Add(&rank, TraceEvent::REDUCE, 2, 7, 100, 10);
  rank.mutable_events(0)->set_device(3);
  const auto json = nlohmann::json::parse(ChromeTrace({rank, node}, SomeJob()));
  std::map<int, std::string> rows;
  std::vector<std::string> in_order;
  std::vector<std::pair<int, std::string>> spans;  // in the file's order, each with its row
  for (const auto& event : json["traceEvents"]) {
    const int row = event["tid"];
    if (event["name"] == "thread_name") {
      EXPECT_TRUE(rows.emplace(row, event["args"]["name"]).second) << "a row of two processes";
      in_order.push_back(event["args"]["name"]);
    }
    if (event["name"] == "thread_sort_index") {
      EXPECT_GT(event["args"]["sort_index"], 0);
    }
    if (event["ph"] == "X") spans.emplace_back(row, event["name"]);
  }
  EXPECT_THAT(in_order, ElementsAre("exchange", "GPU 0: sums", "GPU 0: to host", "GPU 0: to device",
                                    "GPU 0: decoding", "GPU 1: to device", "steps", "GPU 2: NCCL"));
  std::vector<std::string> placed;
  for (const auto& [row, name] : spans) placed.push_back(rows[row] + " < " + name);
  EXPECT_THAT(placed, ElementsAre("GPU 0: sums < sum", "GPU 0: sums < encode",
                                  "GPU 0: to host < to host", "exchange < decode",
                                  "GPU 1: to device < to device", "GPU 0: to device < to device",
                                  "GPU 0: decoding < decode", "GPU 2: NCCL < reduce"));
}

TEST(ChromeTrace, ATraceWithoutEventsIsValid) {
  EXPECT_EQ(ChromeTrace({}, SomeJob()),
            R"({"displayTimeUnit":"ms","otherData":{"job":"3","name":"x \"y\"",)"
            R"("start_unix_us":"0","left_out":"0"},"traceEvents":[
]}
)");
}

TEST(ChromeTrace, BatchesOfAProcessAreOneAndProcessesAreSortedByNumber) {
  std::vector<proto::TraceBatch> batches;
  for (const char* process : {"server s10 shard 0", "server s9 shard 0", "node 10 rank 20",
                              "node 2 rank 4", "node 2 aggregator", "node 2 rank 4"}) {
    batches.push_back(Batch(process));
    Add(&batches.back(), TraceEvent::SUM, 0, 0, 5, 1);
  }
  const auto json = nlohmann::json::parse(ChromeTrace(batches, SomeJob()));
  std::vector<std::string> names;
  int events_of_second = 0;
  for (const auto& event : json["traceEvents"]) {
    if (event["name"] == "process_name") names.push_back(event["args"]["name"]);
    if (event["ph"] == "X" && event["pid"] == 2) ++events_of_second;
  }
  EXPECT_THAT(names, ElementsAre("node 2 aggregator", "node 2 rank 4", "node 10 rank 20",
                                 "server s9 shard 0", "server s10 shard 0"));
  EXPECT_EQ(events_of_second, 2);
}

TEST(ChromeTrace, WhatWasLeftOutIsCounted) {
  proto::TraceBatch some = Batch("node 0 aggregator");
  Add(&some, TraceEvent::SUM, 0, 0, 5, 1);
  some.set_dropped(4);
  proto::TraceBatch none = Batch("coordinator", "");
  none.set_dropped(3);
  EXPECT_EQ(Count({some, none}).events, 1u);
  EXPECT_EQ(Count({some, none}).left_out, 7u);
  const auto json = nlohmann::json::parse(ChromeTrace({some, none}, SomeJob()));
  EXPECT_EQ(json["otherData"]["left_out"], "7");
}

TEST(ChromeTrace, NamesOfAnyBytesMakeValidText) {
  proto::TraceBatch batch = Batch("node 0 \"\\\n\x01");
  Add(&batch, TraceEvent::SUM, 0, 0, 5, 1);
  const auto json = nlohmann::json::parse(ChromeTrace({batch}, SomeJob()));
  EXPECT_EQ(json["traceEvents"][0]["args"]["name"], "node 0 \"\\\n\x01");
}

class TraceFileTest : public ::testing::Test {
 protected:
  TraceFileTest() {
    char path[] = "/tmp/strata-trace-XXXXXX";
    dir_ = mkdtemp(path);
  }
  ~TraceFileTest() override { std::filesystem::remove_all(dir_); }

  std::string Refused(const std::string& path) {
    const absl::Status status = CheckTraceFile(path);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  std::string dir_;
};

TEST_F(TraceFileTest, APlaceThatCanBeWrittenToIsLeftAsItWas) {
  EXPECT_TRUE(CheckTraceFile(dir_ + "/t.json").ok());
  EXPECT_TRUE(std::filesystem::is_empty(dir_));
}

TEST_F(TraceFileTest, WhatCannotBeWrittenToIsNamed) {
  EXPECT_EQ(Refused(dir_), "--trace " + dir_ + ": Is a directory");
  EXPECT_EQ(Refused(dir_ + "/no/t.json"),
            "--trace " + dir_ + "/no/t.json: No such file or directory");
  const std::string pipe = dir_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(Refused(pipe), "--trace " + pipe + ": not a regular file");
}

}  // namespace

}  // namespace strata::cli
