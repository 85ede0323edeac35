#include "cli/export/metrics_lines.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/metrics_line.h"

namespace strata::cli {
namespace {

using testing::SizeIs;

proto::MetricsRecord Full() {
  proto::MetricsRecord record;
  record.set_step(50);
  record.set_samples(3200);
  record.set_epoch(0.1);
  record.set_loss(1.0 / 3);
  record.set_samples_per_s(1234.5678901234);
  record.set_bytes_pushed(uint64_t{1} << 60);
  record.set_bytes_answered(2);
  for (const uint64_t pushes : {6, 3, 1}) record.add_staleness(pushes);
  record.set_waiting_share(0.25);
  record.set_hidden_share(0.75);
  record.set_test_accuracy(0.9);
  record.set_test_loss(0.1);
  (*record.mutable_values())["a \"name\"\n"] = -1e-300;
  (*record.mutable_values())["b"] = 2;
  record.set_elapsed_s(9.5);
  record.set_pushes(10);
  record.set_pushes_during_backward(4);
  record.set_lr(0.05);
  record.set_final(true);
  return record;
}

// Written the same way again, so no field is lost or rounded.
void ExpectReadBack(const proto::MetricsRecord& record) {
  const std::string line = worker::MetricsLine(record);
  const auto read = ParseMetricsLine(line);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(worker::MetricsLine(*read), line);
}

TEST(ParseMetricsLine, GivesTheRecordThatTheLineWasMadeOf) {
  ExpectReadBack(Full());
  proto::MetricsRecord plain;
  plain.set_step(1);
  plain.set_samples(1);
  ExpectReadBack(plain);
  proto::MetricsRecord late;
  late.set_step(7);
  late.set_test_accuracy(0.5);
  late.set_elapsed_s(3);
  ExpectReadBack(late);
  EXPECT_FALSE(ParseMetricsLine(worker::MetricsLine(plain))->has_hidden_share());
}

TEST(ParseMetricsLine, TakesNullForNoNumberAndLeavesOutFieldsThatItDoesNotKnow) {
  proto::MetricsRecord record = Full();
  record.set_loss(std::nan(""));
  const auto read = ParseMetricsLine(worker::MetricsLine(record));
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(std::isnan(read->loss()));
  EXPECT_EQ(ParseMetricsLine(R"({"step":3,"samples":1,"later":{"x":[1]}})")->step(), 3u);
}

TEST(ParseMetricsLine, SaysWhatIsWrong) {
  const auto why = [](const std::string& line) {
    return std::string(ParseMetricsLine(line).status().message());
  };
  EXPECT_EQ(why("[1]"), "is no JSON object");
  EXPECT_EQ(why("{\"step\":1"), "is no JSON object");
  EXPECT_EQ(why(""), "is no JSON object");
  EXPECT_EQ(why("{}"), "has no step");
  EXPECT_EQ(why(R"({"step":-1})"), "step is no count");
  EXPECT_EQ(why(R"({"step":1.5})"), "step is no count");
  EXPECT_EQ(why(R"({"step":18446744073709551615})"), "step is too large");
  EXPECT_EQ(why(R"({"step":1,"loss":"x"})"), "loss is no number");
  EXPECT_EQ(why(R"({"step":1,"staleness":3})"), "staleness is no list of counts");
  EXPECT_EQ(why(R"({"step":1,"staleness":[1,"x"]})"), "staleness is no count");
  EXPECT_EQ(why(R"({"step":1,"values":[1]})"), "values is no object of numbers");
  EXPECT_EQ(why(R"({"step":1,"values":{"a":true}})"), "values.a is no number");
  EXPECT_EQ(why(R"({"step":1,"final":1})"), "final is neither true nor false");
}

TEST(ParseMetrics, NamesTheFileAndTheLineThatIsBroken) {
  const std::string good = worker::MetricsLine(Full()) + "\n";
  EXPECT_EQ(ParseMetrics(good + good + "nonsense\n" + good, "/runs/a/metrics.jsonl").status(),
            absl::InvalidArgumentError("/runs/a/metrics.jsonl:3: is no JSON object"));
  EXPECT_EQ(ParseMetrics(good + "\n", "m").status(),
            absl::InvalidArgumentError("m:2: is no JSON object"));
}

TEST(ParseMetrics, LeavesOutALastLineThatIsCutShortAndSaysSo) {
  const std::string good = worker::MetricsLine(Full()) + "\n";
  const auto cut = ParseMetrics(good + good.substr(0, 30), "m");
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_TRUE(cut->is_cut);
  EXPECT_THAT(cut->records, SizeIs(1));
  const auto whole = ParseMetrics(good + good.substr(0, good.size() - 1), "m");
  EXPECT_FALSE(whole->is_cut) << "only the line break is missing";
  EXPECT_THAT(whole->records, SizeIs(2));
  EXPECT_THAT(ParseMetrics("", "m")->records, SizeIs(0));
}

}  // namespace
}  // namespace strata::cli
