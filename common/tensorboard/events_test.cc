#include "common/tensorboard/events.h"

#include <cmath>
#include <limits>
#include <map>
#include <sstream>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::tensorboard {

namespace {

std::vector<std::string> ReadAll(const std::string& bytes, int64_t* whole_bytes) {
  std::istringstream in(bytes);
  RecordReader reader(&in);
  std::vector<std::string> payloads;
  for (std::string payload; reader.Next(&payload);) payloads.push_back(payload);
  *whole_bytes = reader.whole_bytes();
  return payloads;
}

// RFC 3720, appendix B.4, and the catalogue's check value.
TEST(Crc32c, IsThatOfThePublishedVectors) {
  std::string rising, falling;
  for (char c = 0; c < 32; ++c) rising.push_back(c);
  falling.assign(rising.rbegin(), rising.rend());
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aa);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43);
  EXPECT_EQ(Crc32c(rising), 0x46dd794e);
  EXPECT_EQ(Crc32c(falling), 0x113fdb5c);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283);
  EXPECT_EQ(Crc32c(""), 0u);
}

// All TensorFlow event files begin with a record of 24 bytes, the file version.
TEST(RecordFraming, BeginsAsFilesOfTensorFlowDo) {
  const std::string record = FrameRecord(std::string(24, 'x'));
  EXPECT_EQ(record.size(), 8u + 4u + 24u + 4u);
  EXPECT_EQ(record.substr(0, 12), std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12));
}

TEST(RecordFraming, ReadsBackWhatWasFramed) {
  const std::vector<std::string> payloads = {"one", "", std::string(70000, 'z'),
                                             std::string("\0\1\2", 3)};
  std::string file;
  for (const std::string& payload : payloads) file += FrameRecord(payload);
  int64_t whole = 0;
  EXPECT_EQ(ReadAll(file, &whole), payloads);
  EXPECT_EQ(whole, static_cast<int64_t>(file.size()));
}

TEST(RecordFraming, ReadsUpToTheRecordThatIsCutShortWhereverItIs) {
  const std::string first = FrameRecord("the first"), second = FrameRecord("the second");
  const std::string file = first + second;
  for (size_t bytes = 0; bytes < file.size(); ++bytes) {
    int64_t whole = -1;
    const bool has_first = bytes >= first.size();
    EXPECT_THAT(ReadAll(file.substr(0, bytes), &whole), testing::SizeIs(has_first ? 1 : 0));
    EXPECT_EQ(whole, has_first ? static_cast<int64_t>(first.size()) : 0) << bytes;
  }
}

TEST(RecordFraming, ReadsNothingOfARecordInWhichAnyByteIsWrong) {
  const std::string first = FrameRecord("the first"), second = FrameRecord("the second");
  for (size_t at = 0; at < second.size(); ++at) {
    std::string damaged = second;
    damaged[at] ^= 0x10;
    int64_t whole = -1;
    EXPECT_THAT(ReadAll(first + damaged, &whole), testing::ElementsAre("the first")) << at;
    EXPECT_EQ(whole, static_cast<int64_t>(first.size()));
  }
}

using testing::ElementsAre;
using testing::Pair;

using Record = strata::proto::MetricsRecord;

std::map<std::string, float> ScalarsOf(const proto::Event& event) {
  std::map<std::string, float> scalars;
  for (const proto::Summary::Value& value : event.summary().value()) {
    EXPECT_TRUE(scalars.emplace(value.tag(), value.simple_value()).second) << value.tag();
  }
  return scalars;
}

Record Window() {
  Record record;
  record.set_step(50);
  record.set_samples(3200);
  record.set_epoch(0.1);
  record.set_loss(1.1);
  record.set_samples_per_s(1234.5678);
  record.set_bytes_pushed(1 << 20);
  record.set_bytes_answered(2 << 20);
  for (const uint64_t pushes : {6, 3, 1}) record.add_staleness(pushes);
  record.set_waiting_share(0.3);
  record.set_hidden_share(0.7);
  record.set_pushes(10);
  record.set_pushes_during_backward(4);
  record.set_lr(0.05);
  return record;
}

TEST(MetricsEvent, SaysAWindowUnderTheTagsThatAreDocumented) {
  const proto::Event event = MetricsEvent(Window(), 12.5);
  EXPECT_EQ(event.wall_time(), 12.5);
  EXPECT_EQ(event.step(), 50);
  EXPECT_THAT(
      ScalarsOf(event),
      ElementsAre(Pair("network/bytes_answered", 2 << 20), Pair("network/bytes_pushed", 1 << 20),
                  Pair("network/pushes", 10), Pair("network/pushes_during_backward", 4),
                  Pair("train/epoch", 0.1F), Pair("train/hidden_share", 0.7F),
                  Pair("train/loss", 1.1F), Pair("train/lr", 0.05F), Pair("train/samples", 3200),
                  Pair("train/samples_per_s", static_cast<float>(1234.5678)),
                  Pair("train/staleness_mean", 0.5F), Pair("train/waiting_share", 0.3F)));
}

TEST(MetricsEvent, LeavesOutWhatWasNotMeasured) {
  Record record = Window();
  record.clear_hidden_share();
  record.clear_staleness();
  const auto scalars = ScalarsOf(MetricsEvent(record, 0));
  EXPECT_EQ(scalars.size(), 10u);
  EXPECT_EQ(scalars.count("train/hidden_share"), 0u);
  EXPECT_EQ(scalars.count("train/staleness_mean"), 0u);
}

TEST(MetricsEvent, SaysWhatWasMeasuredEachUnderItsOwnName) {
  Record record;  // a late measurement
  record.set_step(7);
  record.set_test_accuracy(0.9);
  record.set_test_loss(0.2);
  (*record.mutable_values())["perplexity"] = 3.3;
  (*record.mutable_values())["bleu score"] = 21;
  EXPECT_THAT(ScalarsOf(MetricsEvent(record, 0)),
              ElementsAre(Pair("program/bleu score", 21), Pair("program/perplexity", 3.3F),
                          Pair("test/accuracy", 0.9F), Pair("test/loss", 0.2F)));
}

TEST(MetricsEvent, OfTheFinalModelAloneSaysOnlyWhatWasMeasured) {
  Record record;
  record.set_step(100);
  record.set_samples(6400);  // all trained samples; the record has no window of its own
  record.set_final(true);
  record.set_test_accuracy(0.9);
  EXPECT_THAT(ScalarsOf(MetricsEvent(record, 0)), ElementsAre(Pair("test/accuracy", 0.9F)));
  record.set_samples_per_s(10);
  EXPECT_EQ(ScalarsOf(MetricsEvent(record, 0)).count("train/loss"), 1u)
      << "the last window may be the final record's";
}

TEST(MetricsEvent, RoundsToTheNearestFloatAndKnowsNumbersThatAreNone) {
  const double infinity = std::numeric_limits<double>::infinity();
  const float infinite = std::numeric_limits<float>::infinity();
  const auto loss = [](double value) {
    Record record = Window();
    record.set_loss(value);
    return ScalarsOf(MetricsEvent(record, 0)).at("train/loss");
  };
  EXPECT_EQ(loss(0.1), 0.1F);
  EXPECT_EQ(loss(1e300), infinite);
  EXPECT_EQ(loss(-1e300), -infinite);
  EXPECT_EQ(loss(0x1.fffffep127), std::numeric_limits<float>::max());
  EXPECT_EQ(loss(0x1.fffffefp127), std::numeric_limits<float>::max());
  EXPECT_EQ(loss(0x1.ffffffp127), infinite) << "half-way, to even";
  EXPECT_EQ(loss(1e-46), 0.0F);
  EXPECT_TRUE(std::isnan(loss(std::nan(""))));
  EXPECT_TRUE(std::isnan(loss(infinity))) << "metrics.jsonl says null";
}

TEST(Events, BeginAFileGoOnWithItAndShowTheJob) {
  EXPECT_EQ(FileVersionEvent(1).file_version(), "brain.Event:2");
  const proto::Event on = GoOnEvent(40, 2);
  EXPECT_EQ(on.step(), 41) << "the first step that is void";
  EXPECT_EQ(on.session_log().status(), proto::SessionLog::START);
  const proto::Event text = JobTextEvent("name: \"a\"\nranks: 2\n", 3);
  ASSERT_EQ(text.summary().value_size(), 1);
  const proto::Summary::Value& value = text.summary().value(0);
  EXPECT_EQ(value.tag(), "job");
  EXPECT_EQ(value.metadata().plugin_data().plugin_name(), "text");
  EXPECT_THAT(value.tensor().string_val(), ElementsAre("    name: \"a\"\n    ranks: 2\n"));
}

TEST(Events, AreRecordsOfAFile) {
  std::istringstream in(FrameEvent(MetricsEvent(Window(), 1)));
  std::string payload;
  ASSERT_TRUE(RecordReader(&in).Next(&payload));
  proto::Event event;
  ASSERT_TRUE(event.ParseFromString(payload));
  EXPECT_EQ(event.step(), 50);
}

}  // namespace

}  // namespace strata::tensorboard
