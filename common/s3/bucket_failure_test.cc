// What happens where the server, or what lies between, fails.
#include <netinet/in.h>
#include <sys/socket.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "common/s3/bucket.h"
#include "common/s3/testing/bucket_fixture.h"

namespace strata::s3 {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

const CannedReply kDamaged = {.headers = {"x-amz-checksum-crc32: AAAAAA=="}, .body = "damaged"};

// Each of these passes, whatever was asked for.
std::vector<CannedReply> Passing() {
  std::vector<CannedReply> passing = {ErrorReply(503, "SlowDown"),
                                      ErrorReply(500, "InternalError"),
                                      {.status = 502, .body = "<html>Bad gateway</html>"},
                                      {.status = 504},
                                      ErrorReply(429, "TooManyRequests"),
                                      ErrorReply(400, "RequestTimeout"),
                                      ErrorReply(409, "ConditionalRequestConflict")};
  for (const Fault fault : {Fault::kReset, Fault::kStall, Fault::kResetInBody, Fault::kStallInBody,
                            Fault::kCloseInBody}) {
    passing.push_back({.body = "<a>some body</a>", .fault = fault});
  }
  return passing;
}

TEST_F(BucketTest, WhatPassesIsTriedAgain) {
  const auto bucket = Open();
  for (const CannedReply& reply : Passing()) {
    SCOPED_TRACE(absl::StrCat(reply.status, " ", reply.body, " ", static_cast<int>(reply.fault)));
    const std::string text = absl::StrCat("content ", memory_.server().requests());
    AnswerNext(2, "PUT", {reply});
    absl::Status status = Put(*bucket, "x", text);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(memory_.objects().at("runs/a b/x"), text);
    AnswerNext(1, "GET", {reply});
    EXPECT_EQ(Get(*bucket, "x"), text);
    AnswerNext(1, "GET", {reply});
    const auto names = bucket->List("");
    ASSERT_TRUE(names.ok()) << names.status();
    EXPECT_EQ(names->size(), 1u);
    AnswerNext(1, "POST", {reply});
    const std::string large = text + std::string(2000, 'x');
    status = Put(*bucket, "x", large);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(memory_.objects().at("runs/a b/x"), large);
    AnswerNext(1, "DELETE", {reply});
    EXPECT_TRUE(bucket->Delete("x").ok());
    EXPECT_TRUE(memory_.objects().empty());
  }
}

TEST_F(BucketTest, WhatDoesNotPassInTimeIsAnErrorOfTheLastTry) {
  const auto bucket = Open();
  AnswerAll(ErrorReply(503, "SlowDown", "Please reduce your rate"));
  const absl::Time begin = absl::Now();
  const absl::Status status = Put(*bucket, "x", "text");
  const absl::Duration took = absl::Now() - begin;
  ExpectError(status, absl::StatusCode::kUnavailable,
              absl::StrCat("s3://bucket/runs/a b/x: ", memory_.server().Url(),
                           " answers 503 SlowDown Please reduce your rate; tried "));
  EXPECT_THAT(std::string(status.message()), MatchesRegex(".*; tried [0-9]+ times"));
  EXPECT_GT(took, absl::Milliseconds(100));
  EXPECT_LT(took, absl::Seconds(2));
  // Pauses grow: 5 ms after the first, 320 ms after the seventh.
  EXPECT_GE(memory_.server().requests(), 4);
  EXPECT_LE(memory_.server().requests(), 10);
}

// The time for tries runs from the first failure on, not from each.
TEST_F(BucketTest, TriesEndInTime) {
  Limits limits = ShortLimits();
  limits.retry_for = absl::Milliseconds(100);
  limits.first_pause = absl::Milliseconds(1);
  memory_.InterfereWith([](const ReceivedRequest&) {
    absl::SleepFor(absl::Milliseconds(30));
    return Interference{ErrorReply(503, "SlowDown")};
  });
  ExpectError(Open(limits)->Get("x").status(), absl::StatusCode::kUnavailable, "; tried ");
  EXPECT_LE(memory_.server().requests(), 5) << "the first, and those of 30 ms in 100 ms";
}

TEST_F(BucketTest, WhatIsSlowButMovesIsNoStall) {
  Limits limits = ShortLimits();
  limits.part_bytes = 64 << 20;
  limits.retry_for = absl::ZeroDuration();
  memory_.server().ReadSlowly(absl::Milliseconds(3));
  const absl::Time begin = absl::Now();
  const absl::Status status = Put(*Open(limits), "x", std::string(32 << 20, 'x'));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(absl::Now() - begin, 2 * limits.stall_after);
}

TEST_F(BucketTest, DamageOnTheWayIsSeen) {
  const auto bucket = Open();
  ASSERT_TRUE(Put(*bucket, "x", "text").ok());
  AnswerNext(1, "GET", {kDamaged});
  EXPECT_EQ(Get(*bucket, "x"), "text");
  AnswerAll(kDamaged);
  ExpectError(
      bucket->Get("x").status(), absl::StatusCode::kDataLoss,
      "s3://bucket/runs/a b/x: it came with a checksum that is not that of its bytes; tried");
  // One of parts is not of the whole.
  AnswerAll({.headers = {"x-amz-checksum-crc32: AAAAAA==-2"}, .body = "parts"});
  EXPECT_EQ(Get(*bucket, "x"), "parts");
}

TEST_F(BucketTest, AStallIsAnErrorThatSaysWhereAndHowLong) {
  Limits limits = ShortLimits();
  limits.retry_for = absl::ZeroDuration();
  const auto bucket = Open(limits);
  const std::string expected =
      absl::StrCat("s3://bucket/runs/a b/x: 127.0.0.1:", memory_.server().port(),
                   ": no byte for 300ms; tried 1 time");
  AnswerAll({.fault = Fault::kStall});
  ExpectError(Put(*bucket, "x", "text"), absl::StatusCode::kUnavailable, expected);
  ExpectError(bucket->Get("x").status(), absl::StatusCode::kUnavailable, expected);
  AnswerAll({.body = std::string(100000, 'x'), .fault = Fault::kStallInBody});
  ExpectError(bucket->Get("x").status(), absl::StatusCode::kUnavailable, expected);
  memory_.InterfereWith(nullptr);
  memory_.server().StallBodiesOf("PUT");
  limits.part_bytes = 64 << 20;
  const auto other = Open(limits);
  ExpectError(Put(*other, "x", std::string(32 << 20, 'x')), absl::StatusCode::kUnavailable,
              expected);
}

TEST_F(BucketTest, AnAnswerThatIsCutOffIsAnError) {
  const auto bucket = Open();
  AnswerAll({.body = std::string(1000, 'x'), .fault = Fault::kCloseInBody});
  ExpectError(bucket->Get("x").status(), absl::StatusCode::kUnavailable,
              "transfer closed with 500 bytes remaining to read; tried ");
  AnswerAll({.body = std::string(1000, 'x'), .fault = Fault::kChunked});
  ExpectError(bucket->Get("x").status(), absl::StatusCode::kUnavailable,
              "an object without its length; tried ");
}

TEST_F(BucketTest, AllOfACallHasADeadline) {
  Limits limits = ShortLimits();
  limits.deadline = absl::Milliseconds(200);
  limits.stall_after = absl::Seconds(60);
  const auto bucket = Open(limits);
  AnswerAll({.fault = Fault::kStall});
  const absl::Time begin = absl::Now();
  ExpectError(bucket->Get("x").status(), absl::StatusCode::kDeadlineExceeded,
              absl::StrCat("s3://bucket/runs/a b/x: 127.0.0.1:", memory_.server().port(),
                           ": not done in time"));
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(200));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
  limits.retry_for = absl::Seconds(60);
  AnswerAll({.status = 503});
  ExpectError(Open(limits)->List("").status(), absl::StatusCode::kUnavailable, "; tried ");
  EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
}

TEST_F(BucketTest, AStopEndsWhatStandsStillAtOnce) {
  Limits limits = ShortLimits();
  limits.stall_after = absl::Seconds(60);
  limits.retry_for = absl::Seconds(60);
  limits.first_pause = absl::Seconds(50);
  limits.deadline = absl::Minutes(10);
  for (const CannedReply& reply :
       {CannedReply{.fault = Fault::kStall}, CannedReply{.status = 503}}) {
    stop_ = std::stop_source();
    const auto bucket = Open(limits);
    AnswerAll(reply);
    const int before = memory_.server().requests();
    absl::Status status;
    std::thread waits([&] { status = bucket->Get("x").status(); });
    while (memory_.server().requests() == before) std::this_thread::yield();
    absl::SleepFor(absl::Milliseconds(700));  // libcurl's own timers have run out by then
    const absl::Time begin = absl::Now();
    stop_.request_stop();
    waits.join();
    EXPECT_LT(absl::Now() - begin, absl::Milliseconds(500));
    ExpectError(status, absl::StatusCode::kCancelled, "s3://bucket/runs/a b/x: stopped");
    ExpectError(Put(*bucket, "x", "text"), absl::StatusCode::kCancelled,
                "s3://bucket/runs/a b/x: stopped");
  }
}

TEST_F(BucketTest, ARefusalNamesTheBucketAndWhereCredentialsCameFrom) {
  const auto bucket = Open();
  // The server knows the key and the token, and may say anything.
  AnswerAll(ErrorReply(403, "InvalidAccessKeyId",
                       absl::StrCat("no ", MemoryBucket::kKeyId, " with ", MemoryBucket::kToken,
                                    " and ", MemoryBucket::kSecret, "\nhere")));
  const std::string refusal = absl::StrCat(
      memory_.server().Url(),
      " answers 403 InvalidAccessKeyId no (hidden) with (hidden) and (hidden)\\nhere, to the "
      "credentials of AWS_ACCESS_KEY_ID for bucket bucket");
  ExpectError(Put(*bucket, "x", "text"), absl::StatusCode::kPermissionDenied,
              "s3://bucket/runs/a b/x: " + refusal);
  ExpectError(bucket->Get("x").status(), absl::StatusCode::kPermissionDenied, refusal);
  ExpectError(bucket->List("").status(), absl::StatusCode::kPermissionDenied,
              "s3://bucket/runs/a b: " + refusal);
  ExpectError(bucket->Delete("x"), absl::StatusCode::kPermissionDenied, refusal);
  EXPECT_EQ(memory_.server().requests(), 4) << "it does not pass";
  AnswerAll(ErrorReply(400, "ExpiredToken"));
  ExpectError(bucket->Get("x").status(), absl::StatusCode::kPermissionDenied, "ExpiredToken");
}

TEST_F(BucketTest, WhatIsMissingIsNamed) {
  const auto bucket = Open();
  ExpectError(
      bucket->Get("x").status(), absl::StatusCode::kNotFound,
      absl::StrCat("s3://bucket/runs/a b/x: ", memory_.server().Url(), " answers 404 NoSuchKey"));
  AnswerAll(ErrorReply(404, "NoSuchBucket"));
  for (const absl::Status& status : {bucket->Get("x").status(), bucket->List("").status(),
                                     bucket->Delete("x"), Put(*bucket, "x", "text")}) {
    ExpectError(status, absl::StatusCode::kFailedPrecondition,
                "NoSuchBucket no: there is no bucket bucket");
  }
}

TEST_F(BucketTest, OtherRefusalsSayWhatTheServerSays) {
  const auto bucket = Open();
  CannedReply elsewhere = ErrorReply(301, "PermanentRedirect", "elsewhere");
  elsewhere.headers = {"x-amz-bucket-region: eu-west-1", "Location: http://127.0.0.1:1/"};
  AnswerAll(elsewhere);
  ExpectError(bucket->Get("x").status(), absl::StatusCode::kFailedPrecondition,
              "answers 301 PermanentRedirect elsewhere: the bucket is in region eu-west-1, not "
              "us-east-1");
  AnswerAll(ErrorReply(400, "AuthorizationHeaderMalformed", "expecting 'eu-west-1'"));
  ExpectError(bucket->Get("x").status(), absl::StatusCode::kFailedPrecondition,
              "answers 400 AuthorizationHeaderMalformed expecting \\'eu-west-1\\'");
  AnswerAll(ErrorReply(501, "NotImplemented"));
  ExpectError(bucket->List("").status(), absl::StatusCode::kUnimplemented, "501 NotImplemented");
  AnswerAll({.status = 507});
  ExpectError(Put(*bucket, "x", "text"), absl::StatusCode::kResourceExhausted, "answers 507");
  AnswerAll({.status = 204});
  ExpectError(bucket->Get("x").status(), absl::StatusCode::kFailedPrecondition,
              "204 in place of 200");
}

TEST_F(BucketTest, NoConnectionIsAnErrorThatSaysToWhere) {
  // A port that nobody else gets, and where nobody listens.
  const UniqueFd taken(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(taken.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(taken.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string host = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  ExpectError(Open(ShortLimits(), "http://" + host)->Get("x").status(),
              absl::StatusCode::kUnavailable, "s3://bucket/runs/a b/x: " + host + ": ");
  // A name that no resolver has to be asked for.
  const std::string long_label(70, 'a');
  ExpectError(Open(ShortLimits(), "http://" + long_label)->Get("x").status(),
              absl::StatusCode::kUnavailable, long_label + ": Could not resolve host");
  ExpectError(Open(ShortLimits(), absl::StrReplaceAll(memory_.server().Url(), {{"http", "https"}}))
                  ->Get("x")
                  .status(),
              absl::StatusCode::kUnavailable, "SSL");
}

}  // namespace
}  // namespace strata::s3
