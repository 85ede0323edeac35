#include "common/s3/bucket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "common/testing/memory_bucket.h"

namespace strata::s3 {
namespace {

// Short times, so that failures are quick, and small parts.
Limits ShortLimits() {
  return {.stall_after = absl::Milliseconds(300),
          .retry_for = absl::Milliseconds(400),
          .first_pause = absl::Milliseconds(5),
          .deadline = absl::Seconds(20),
          .part_bytes = 1000};
}

// Expects an error whose text contains no credentials.
void ExpectError(const absl::Status& status, absl::StatusCode code, const std::string& text) {
  EXPECT_EQ(status.code(), code) << status;
  const std::string message(status.message());
  EXPECT_THAT(message, ::testing::HasSubstr(text));
  for (const char* hidden :
       {MemoryBucket::kKeyId, MemoryBucket::kSecret, MemoryBucket::kToken, "AWS4-HMAC"}) {
    EXPECT_THAT(message, ::testing::Not(::testing::HasSubstr(hidden)));
  }
}

// A bucket in memory, and what opens it under the prefix "runs/a b".
class BucketTest : public ::testing::Test {
 protected:
  std::unique_ptr<Bucket> Open(const Limits& limits, const std::string& endpoint = "") {
    Environment environment = memory_.Variables();
    if (!endpoint.empty()) environment["AWS_ENDPOINT_URL_S3"] = endpoint;
    const auto settings = FindSettings("s3://bucket/runs/a b", environment);
    EXPECT_TRUE(settings.ok()) << settings.status();
    auto bucket = Bucket::Open(*settings, limits, stop_.get_token());
    EXPECT_TRUE(bucket.ok()) << bucket.status();
    return *std::move(bucket);
  }
  std::unique_ptr<Bucket> Open() { return Open(ShortLimits()); }

  static absl::Status Put(Bucket& bucket, const std::string& name, const std::string& text,
                          bool only_new = false) {
    const absl::Span<const char> whole(text);
    const absl::Span<const char> pieces[] = {
        {}, whole.subspan(0, text.size() / 3), {}, whole.subspan(text.size() / 3), {}};
    return bucket.Put(name, pieces, only_new);
  }
  static std::string Get(Bucket& bucket, const std::string& name) {
    const auto content = bucket.Get(name);
    EXPECT_TRUE(content.ok()) << content.status();
    if (!content.ok()) return "";
    EXPECT_EQ(reinterpret_cast<uintptr_t>(content->data()) % 64, 0u);
    return {reinterpret_cast<const char*>(content->data()), content->size()};
  }

  // Answers all requests this way from now on.
  void AnswerAll(const CannedReply& reply) {
    memory_.InterfereWith([=](const ReceivedRequest&) { return Interference{reply}; });
  }
  // Answers the next `count` requests of a method this way.
  void AnswerNext(int count, const std::string& method, const Interference& interference) {
    memory_.InterfereWith(
        [=, left = count](const ReceivedRequest& request) mutable -> std::optional<Interference> {
          if (request.method != method || left == 0) return std::nullopt;
          --left;
          return interference;
        });
  }

  MemoryBucket memory_;
  std::stop_source stop_;
};

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kPrefix[] = "runs/a b/";

std::string Text(size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text.push_back(static_cast<char>('a' + (i + i / 26) % 26));
  return text;
}

TEST_F(BucketTest, WhatIsPutIsReadAgain) {
  const auto bucket = Open();
  for (const size_t bytes : {0, 1, 999, 1000}) {
    ASSERT_TRUE(Put(*bucket, "a/b.txt", Text(bytes)).ok());
    EXPECT_EQ(Get(*bucket, "a/b.txt"), Text(bytes));
    EXPECT_EQ(memory_.objects(),
              (std::map<std::string, std::string>{{"runs/a b/a/b.txt", Text(bytes)}}));
  }
  EXPECT_TRUE(bucket->Delete("a/b.txt").ok());
  EXPECT_TRUE(bucket->Delete("a/b.txt").ok()) << "that it is gone is what was wanted";
  EXPECT_THAT(memory_.objects(), IsEmpty());
  EXPECT_EQ(memory_.server().connections(), 1) << "it is kept for the next request";
}

TEST_F(BucketTest, ALargeObjectGoesInParts) {
  const auto bucket = Open();
  for (const size_t bytes : {1001, 3000, 3500}) {
    ASSERT_TRUE(Put(*bucket, "x", Text(bytes)).ok());
    EXPECT_EQ(Get(*bucket, "x"), Text(bytes));
  }
  EXPECT_EQ(memory_.uploads(), 0u);
  const std::vector<std::string> log = memory_.log();
  EXPECT_EQ(log[0], "POST /bucket/runs/a%20b/x?uploads=");
  EXPECT_EQ(log[1], "PUT /bucket/runs/a%20b/x?partNumber=1&uploadId=upload%2B1%2F%26%3D");
  EXPECT_EQ(log[2], "PUT /bucket/runs/a%20b/x?partNumber=2&uploadId=upload%2B1%2F%26%3D");
  EXPECT_EQ(log[3], "POST /bucket/runs/a%20b/x?uploadId=upload%2B1%2F%26%3D");
}

TEST_F(BucketTest, OnlyNewLeavesWhatIsThere) {
  const auto bucket = Open();
  for (const size_t bytes : {10, 2500}) {
    const std::string name = absl::StrCat("x", bytes);
    ASSERT_TRUE(Put(*bucket, name, Text(bytes), /*only_new=*/true).ok());
    ExpectError(Put(*bucket, name, Text(bytes + 1), /*only_new=*/true),
                absl::StatusCode::kAlreadyExists,
                absl::StrCat("s3://bucket/runs/a b/", name, ": it is there already"));
    EXPECT_EQ(Put(*bucket, name, Text(bytes), /*only_new=*/true).code(),
              absl::StatusCode::kAlreadyExists)
        << "the same bytes are no new object, either";
    EXPECT_EQ(Get(*bucket, name), Text(bytes));
    EXPECT_TRUE(Put(*bucket, name, Text(bytes + 1)).ok());
    EXPECT_EQ(Get(*bucket, name), Text(bytes + 1));
  }
  EXPECT_EQ(memory_.uploads(), 0u);
}

// The answer is lost, and the request is sent again: the object that it finds is its own.
TEST_F(BucketTest, OnlyNewKnowsItsOwnObjectAgain) {
  const auto bucket = Open();
  ASSERT_TRUE(Put(*bucket, "before", "over a connection that is kept").ok());
  const Interference lost = {.reply = {.fault = Fault::kReset}, .is_carried_out = true};
  AnswerNext(1, "PUT", lost);
  EXPECT_TRUE(Put(*bucket, "x", "mine", /*only_new=*/true).ok());
  EXPECT_EQ(memory_.objects().at("runs/a b/x"), "mine");
  // The existing object is another's; a broken try proves nothing.
  AnswerNext(1, "PUT", {.reply = {.fault = Fault::kReset}});
  for (const std::string other : {"other", "min", "yours"}) {
    ExpectError(Put(*bucket, "x", other, /*only_new=*/true), absl::StatusCode::kAlreadyExists,
                "x: ");
  }
  EXPECT_EQ(memory_.objects().at("runs/a b/x"), "mine");
}

TEST_F(BucketTest, AnUploadWhoseEndWasNotHeardOfIsComplete) {
  const auto bucket = Open();
  for (const bool only_new : {false, true}) {
    const std::string name = absl::StrCat("x", only_new);
    memory_.InterfereWith(
        [left = 1](const ReceivedRequest& request) mutable -> std::optional<Interference> {
          if (request.method != "POST" || request.Has("uploads") || left-- <= 0)
            return std::nullopt;
          return Interference{.reply = {.fault = Fault::kReset}, .is_carried_out = true};
        });
    const absl::Status status = Put(*bucket, name, Text(2500), only_new);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(memory_.objects().at(kPrefix + name), Text(2500));
  }
}

TEST_F(BucketTest, AnUploadThatFailsLeavesNoParts) {
  const auto bucket = Open();
  memory_.SetObject("runs/a b/x", "old");
  const auto refuse_part_2 = [](const ReceivedRequest& request) -> std::optional<Interference> {
    if (!request.Has("partNumber") || request.query.at("partNumber") != "2") return std::nullopt;
    return Interference{ErrorReply(403, "AccessDenied")};
  };
  memory_.InterfereWith(refuse_part_2);
  ExpectError(Put(*bucket, "x", Text(2500)), absl::StatusCode::kPermissionDenied, "AccessDenied");
  EXPECT_EQ(memory_.uploads(), 0u);
  EXPECT_EQ(memory_.objects().at("runs/a b/x"), "old");
}

// Status 200 is sent before an upload is combined, which may still fail.
TEST_F(BucketTest, AnErrorInAGoodAnswerIsAnError) {
  const auto bucket = Open();
  const auto answer = [&](int count, const CannedReply& reply) {
    memory_.InterfereWith(
        [=, left = count](const ReceivedRequest& request) mutable -> std::optional<Interference> {
          if (request.method != "POST" || request.Has("uploads") || left-- <= 0)
            return std::nullopt;
          return Interference{reply};
        });
  };
  answer(1, ErrorReply(200, "InternalError"));
  EXPECT_TRUE(Put(*bucket, "x", Text(2500)).ok());
  EXPECT_EQ(memory_.objects().at("runs/a b/x"), Text(2500));
  answer(1, {.body = "  \n <CompleteMultipartUploadRes"});
  EXPECT_TRUE(Put(*bucket, "x", Text(2600)).ok());
  EXPECT_EQ(memory_.objects().at("runs/a b/x"), Text(2600));
  answer(1000, ErrorReply(200, "InvalidPart", "one is missing"));
  ExpectError(Put(*bucket, "x", Text(2700)), absl::StatusCode::kFailedPrecondition,
              "answers 200 InvalidPart one is missing");
  EXPECT_EQ(memory_.uploads(), 0u);
}

TEST_F(BucketTest, AListGoesOnOverAllPages) {
  const auto bucket = Open();
  std::vector<std::string> expected;
  for (const std::string name : {"a", "a&b <c>", "b/1", "b/2", "b/3", "c \xc3\xa4"}) {
    memory_.SetObject(kPrefix + name, "x");
    expected.push_back(name);
  }
  memory_.SetObject("runs/a", "of others");
  memory_.SetObject("runs/a bc", "of others");
  for (const size_t page : {1, 2, 3, 1000}) {
    memory_.SetPage(page);
    const auto names = bucket->List("");
    ASSERT_TRUE(names.ok()) << names.status();
    EXPECT_EQ(*names, expected) << page;
    EXPECT_THAT(*bucket->List("b/"), ElementsAre("b/1", "b/2", "b/3"));
  }
  EXPECT_THAT(*bucket->List("d"), IsEmpty());
}

TEST_F(BucketTest, AListThatIsWrongIsRefused) {
  const auto bucket = Open();
  const auto expect_refused = [&](const std::string& body, const std::string& why) {
    AnswerAll({.body = body});
    ExpectError(
        bucket->List("").status(), absl::StatusCode::kFailedPrecondition,
        absl::StrCat("s3://bucket/runs/a b: ", memory_.server().Url(), " answers a list ", why));
  };
  expect_refused("<html/>", "that is none");
  expect_refused("<ListBucketResult><Contents><Key>other/x</Key></Contents></ListBucketResult>",
                 "of other keys than were asked for");
  expect_refused("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
                 "that goes on and does not say where");
  expect_refused(
      "<ListBucketResult><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>t</NextContinuationToken></ListBucketResult>",
      "that does not go on");
  AnswerAll({.body = "<ListBucketResult>"});
  ExpectError(bucket->List("").status(), absl::StatusCode::kUnavailable,
              "no XML: byte 18: no </ListBucketResult> follows; tried ");
}

// Each page announces another one: a new one, or an earlier one.
TEST_F(BucketTest, AListWithoutAnEndIsRefused) {
  Limits limits = ShortLimits();
  limits.list_pages_max = 20;
  limits.list_names_max = 30;
  const auto bucket = Open(limits);
  const std::string wrong = absl::StrCat("s3://bucket/runs/a b: ", memory_.server().Url(),
                                         " answers a list of more than ");
  const std::string name = "<Key>runs/a b/x</Key>";
  for (const bool in_a_circle : {false, true}) {
    for (const int names : {0, 2}) {
      memory_.InterfereWith([&, page = 0](const ReceivedRequest& request) mutable {
        const int next = in_a_circle ? ++page % 2 : ++page;
        std::string body = "<IsTruncated>true</IsTruncated>";
        if (request.Has("uploads")) {
          absl::StrAppend(&body, "<NextKeyMarker>", next, "</NextKeyMarker>");
          for (int i = 0; i < names; ++i) {
            absl::StrAppend(&body, "<Upload>", name, "<UploadId>u</UploadId></Upload>");
          }
        } else {
          absl::StrAppend(&body, "<NextContinuationToken>", next, "</NextContinuationToken>");
          for (int i = 0; i < names; ++i) absl::StrAppend(&body, "<Contents>", name, "</Contents>");
        }
        return Interference{{.body = "<ListBucketResult>" + body + "</ListBucketResult>"}};
      });
      const int before = memory_.server().requests();
      ExpectError(bucket->List("").status(), absl::StatusCode::kFailedPrecondition,
                  wrong + (names == 0 ? "20 pages" : "30 names"));
      ExpectError(bucket->AbortUploads(""), absl::StatusCode::kFailedPrecondition,
                  wrong + (names == 0 ? "20 pages" : "30 uploads"));
      EXPECT_EQ(memory_.server().requests(), before + (names == 0 ? 40 : 32));
    }
  }
}

TEST_F(BucketTest, AnAnswerThatIsMuchAsXmlIsRefused) {
  Limits limits = ShortLimits();
  limits.retry_for = absl::ZeroDuration();
  const auto bucket = Open(limits);
  const auto expect_refused = [&](const std::string& body, const std::string& why) {
    AnswerAll({.body = body});
    const absl::Status status = bucket->List("").status();
    ExpectError(status, absl::StatusCode::kUnavailable, why);
    EXPECT_LT(status.message().size(), 400u);
    EXPECT_FALSE(absl::StrContains(status.message(), "\n"));
  };
  // A billion laughs.
  expect_refused("<!DOCTYPE l [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;\">]><l>&b;</l>",
                 "no XML: byte 1: no name");
  std::string elements = "<l>";
  for (int i = 0; i < 1'000'000; ++i) elements += "<a/>";
  expect_refused(elements + "</l>", "too many elements");
  expect_refused("<" + std::string(4 << 20, 'a') + ">\n", "a...> follows");
  expect_refused("<a></" + std::string(4 << 20, 'b') + ">", "b...> in place of </a>");
  expect_refused("<a></b\xff\xfe>", "</b\\xff\\xfe> in place of </a>");
}

TEST_F(BucketTest, UploadsThatNobodyCompletedAreEnded) {
  Limits limits = ShortLimits();
  limits.retry_for = absl::ZeroDuration();
  const auto bucket = Open(limits);
  // Neither completing nor aborting the upload gets through, as after a crash.
  memory_.InterfereWith([](const ReceivedRequest& request) -> std::optional<Interference> {
    if (!request.Has("uploadId") || request.Has("partNumber")) return std::nullopt;
    return Interference{.reply = {.fault = Fault::kReset}};
  });
  for (const std::string name : {"f/a", "f/b", "f/c", "g/d"}) {
    EXPECT_FALSE(Put(*bucket, name, Text(2500)).ok());
  }
  EXPECT_EQ(memory_.uploads(), 4u);
  memory_.InterfereWith(nullptr);
  memory_.SetPage(2);
  EXPECT_TRUE(bucket->AbortUploads("f/").ok());
  EXPECT_EQ(memory_.uploads(), 1u);
  EXPECT_TRUE(bucket->AbortUploads("").ok());
  EXPECT_EQ(memory_.uploads(), 0u);
}

// A request to abort an upload without its id would delete the object.
TEST_F(BucketTest, AnUploadWithoutANameIsNotEnded) {
  const auto bucket = Open();
  memory_.SetObject("runs/a b/x", "content");
  AnswerNext(1, "GET",
             {.reply = {.body = "<R><Upload><Key>runs/a b/x</Key><UploadId/></Upload></R>"}});
  EXPECT_TRUE(bucket->AbortUploads("").ok());
  AnswerNext(1, "POST", {.reply = {.body = "<InitiateMultipartUploadResult/>"}});
  ExpectError(Put(*bucket, "x", Text(2500)), absl::StatusCode::kFailedPrecondition,
              "begins an upload without an UploadId");
  EXPECT_EQ(memory_.objects().at("runs/a b/x"), "content");
}

TEST_F(BucketTest, ManyThreadsUseOne) {
  const auto bucket = Open();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const std::string name = absl::StrCat("x", i);
      for (size_t bytes = 800; bytes < 990; bytes += 20) {
        EXPECT_TRUE(Put(*bucket, name, Text(bytes + i)).ok());
        EXPECT_EQ(Get(*bucket, name), Text(bytes + i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(memory_.server().connections(), 8);
}

// The reference checksum: that of "123456789" is cbf43926.
TEST(Crc32, IsThatOfS3) {
  const std::string text = "123456789";
  const absl::Span<const char> whole(text);
  const absl::Span<const char> parts[] = {whole.subspan(0, 4), {}, whole.subspan(4)};
  EXPECT_EQ(Crc32Of({&whole, 1}), "y/Q5Jg==");
  EXPECT_EQ(Crc32Of(parts), "y/Q5Jg==");
  EXPECT_EQ(Crc32Of({}), "AAAAAA==");
}

// Failures of the server and of the network.

using ::testing::MatchesRegex;

const CannedReply kDamaged = {.headers = {"x-amz-checksum-crc32: AAAAAA=="}, .body = "damaged"};

// Returns transient failures, which are retried whatever was requested.
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

// The time for tries counts from the first failure, not from each.
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
  limits.stall_after = absl::Seconds(1);  // kernels' buffers may be emptied late, too
  limits.part_bytes = 128 << 20;
  limits.retry_for = absl::ZeroDuration();
  memory_.server().ReadSlowly(absl::Milliseconds(3));
  const absl::Time begin = absl::Now();
  const absl::Status status = Put(*Open(limits), "x", std::string(64 << 20, 'x'));
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
  // The checksum of a multipart upload is not that of the whole.
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

// The peer may not be S3, or be hostile: its answer is limited, and the result is one error.
TEST_F(BucketTest, AnAnswerWithoutAnEndIsAnError) {
  Limits limits = ShortLimits();
  limits.retry_for = absl::ZeroDuration();
  const auto bucket = Open(limits);
  const std::string where =
      absl::StrCat("s3://bucket/runs/a b/x: 127.0.0.1:", memory_.server().port(), ": ");
  for (const int status : {200, 500}) {
    AnswerAll({.status = status, .body = std::string(1 << 16, 'x'), .fault = Fault::kEndless});
    const std::string too_long = "an answer of more than 16777216 bytes; tried 1 time";
    ExpectError(bucket->List("").status(), absl::StatusCode::kUnavailable, too_long);
    ExpectError(Put(*bucket, "x", "text"), absl::StatusCode::kUnavailable, where + too_long);
    ExpectError(bucket->Delete("x"), absl::StatusCode::kUnavailable, where + too_long);
    ExpectError(bucket->Get("x").status(), absl::StatusCode::kUnavailable,
                where + (status == 200 ? "an object without its length" : too_long));
  }
  AnswerAll({.fault = Fault::kEndlessHeaders});
  ExpectError(bucket->Get("x").status(), absl::StatusCode::kUnavailable,
              where + "headers of more than 262144 bytes; tried 1 time");
}

TEST_F(BucketTest, AnAnswerThatComesByteByByteEndsWithTheCall) {
  Limits limits = ShortLimits();
  limits.deadline = absl::Milliseconds(800);
  const auto bucket = Open(limits);
  AnswerAll({.fault = Fault::kDrip});
  const absl::Time begin = absl::Now();
  ExpectError(bucket->Get("x").status(), absl::StatusCode::kDeadlineExceeded, "not done in time");
  ExpectError(bucket->List("").status(), absl::StatusCode::kDeadlineExceeded, "not done in time");
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
}

TEST_F(BucketTest, AnObjectThatIsTooLargeTakesNoMemoryAndIsNotTriedAgain) {
  const auto bucket = Open();
  AnswerAll({.body = "the beginning", .fault = Fault::kTenGigabytes});
  ExpectError(bucket->Get("x", 1 << 20).status(), absl::StatusCode::kInvalidArgument,
              "s3://bucket/runs/a b/x: larger than 1048576 bytes");
  EXPECT_EQ(memory_.server().requests(), 1);
  memory_.InterfereWith(nullptr);
  ASSERT_TRUE(Put(*bucket, "x", "12345").ok());
  EXPECT_TRUE(bucket->Get("x", 5).ok());
  EXPECT_EQ(bucket->Get("x", 4).status().code(), absl::StatusCode::kInvalidArgument);
}

// The key would go to another host, or the request in a circle.
TEST_F(BucketTest, NobodyIsFollowedElsewhere) {
  HttpServer other([](const ReceivedRequest&) { return CannedReply{.body = "of another"}; });
  const auto bucket = Open();
  for (const int status : {301, 302, 303, 307, 308}) {
    for (const std::string& to : {other.Url() + "/bucket/x", memory_.server().Url() + "/bucket/x",
                                  std::string("file:///etc/passwd")}) {
      const int before = memory_.server().requests();
      AnswerAll({.status = status, .headers = {"Location: " + to}});
      ExpectError(bucket->Get("x").status(), absl::StatusCode::kFailedPrecondition,
                  absl::StrCat(memory_.server().Url(), " answers ", status));
      ExpectError(Put(*bucket, "x", "text"), absl::StatusCode::kFailedPrecondition, "answers 30");
      EXPECT_EQ(memory_.server().requests(), before + 2);
    }
  }
  EXPECT_EQ(other.requests(), 0);
}

// Compressed answers are not unpacked: an answer never grows beyond the bytes received.
TEST_F(BucketTest, NothingIsUnpacked) {
  const std::string packed("\x1f\x8b\x08\x00 not even gzip", 18);
  memory_.InterfereWith([&](const ReceivedRequest& request) {
    EXPECT_EQ(request.Header("accept-encoding"), "");
    return Interference{{.headers = {"Content-Encoding: gzip"}, .body = packed}};
  });
  const auto bucket = Open();
  EXPECT_EQ(Get(*bucket, "x"), packed);
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
  // The server knows the key and the token, and may send anything.
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
  // A reserved port on which nobody listens.
  const UniqueFd taken(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(taken.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(taken.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string host = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  ExpectError(Open(ShortLimits(), "http://" + host)->Get("x").status(),
              absl::StatusCode::kUnavailable, "s3://bucket/runs/a b/x: " + host + ": ");
  // A name that can be rejected without a resolver.
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
