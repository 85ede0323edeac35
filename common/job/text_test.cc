#include "common/job/job.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

constexpr char kMinimal[] = R"(
name: "a"
model { zoo: "mlp" }
data { synthetic {} }
)";

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<proto::Job> job = ParseJob(text, "job.textproto");
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(job.status().message());
}

TEST(ParseJob, ReadsProtobufText) {
  const absl::StatusOr<proto::Job> job = ParseJob(kMinimal, "job.textproto");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name(), "a");
  EXPECT_EQ(job->model().zoo(), "mlp");
}

TEST(ParseJob, NamesPlaceAndFieldOfAnUnknownField) {
  EXPECT_EQ(ErrorOf("name: \"a\"\nrankz: 3\n"),
            "job.textproto:2:1: Message type \"strata.proto.Job\" has no field named \"rankz\".");
}

TEST(ParseJob, NamesPlaceAndFieldOfAValueOfTheWrongType) {
  EXPECT_EQ(ErrorOf("name: \"a\"\nranks: many\n"),
            "job.textproto:2:8: ranks: Expected integer, got: many");
  EXPECT_EQ(ErrorOf("model { zoo: 5 }\n"), "job.textproto:1:14: zoo: Expected string, got: 5");
}

TEST(ParseJob, NamesPlaceAndFieldOfAnUnknownEnumValue) {
  EXPECT_EQ(ErrorOf("exchange: CARRIER_PIGEON\n"),
            "job.textproto:1:11: Unknown enumeration value of \"CARRIER_PIGEON\" for field "
            "\"exchange\". It is one of PARAMETER_SERVER, NONE, RING, MPI, NCCL.");
  EXPECT_EQ(ErrorOf("push { codec: fp16 }\n"),
            "job.textproto:1:15: Unknown enumeration value of \"fp16\" for field \"codec\". It is "
            "one of FP32, FP16, BF16, INT8, ONE_BIT, TOP_K, DGC.");
}

TEST(ParseJob, NamesANumberOutOfRange) {
  EXPECT_EQ(ErrorOf("ranks: 4294967296\n"),
            "job.textproto:1:8: ranks: Integer out of range (4294967296)");
}

TEST(ParseJob, RefusesAFieldTwiceAndTwoMembersOfAOneof) {
  EXPECT_EQ(ErrorOf("ranks: 1\nranks: 2\n"),
            "job.textproto:2:1: Non-repeated field \"ranks\" is specified multiple times.");
  EXPECT_EQ(ErrorOf("consistency { sync {} lazy {} }\n"),
            "job.textproto:1:23: Field \"lazy\" is specified along with field \"sync\", another "
            "member of oneof \"mode\".");
}

TEST(ParseJob, SaysWhereAnUnfinishedFileEnds) {
  EXPECT_EQ(ErrorOf("model { zoo: \"mlp\"\n"),
            "job.textproto:2:1: Expected identifier, got: the end");
}

TEST(JobToText, ShowsDefaultsThatAreZeroAndReadsBackTheSame) {
  proto::Job job = *ParseJob(kMinimal, "job");
  FillDefaults(&job);
  const std::string text = JobToText(job);
  EXPECT_NE(text.find("exchange: PARAMETER_SERVER\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  warmup_epochs: 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  sync {}\n"), std::string::npos) << text;
  EXPECT_NE(text.find("    momentum: 0.9\n"), std::string::npos) << text;
  const absl::StatusOr<proto::Job> again = ParseJob(text, "again");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->SerializeAsString(), job.SerializeAsString());
}

}  // namespace
}  // namespace strata
