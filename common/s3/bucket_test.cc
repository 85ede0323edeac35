#include "common/s3/bucket.h"

#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/s3/testing/bucket_fixture.h"

namespace strata::s3 {
namespace {

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

// The answer is lost, and the request is sent again: what it finds is its own.
TEST_F(BucketTest, OnlyNewKnowsItsOwnObjectAgain) {
  const auto bucket = Open();
  ASSERT_TRUE(Put(*bucket, "before", "over a connection that is kept").ok());
  const Interference lost = {.reply = {.fault = Fault::kReset}, .is_carried_out = true};
  AnswerNext(1, "PUT", lost);
  EXPECT_TRUE(Put(*bucket, "x", "mine", /*only_new=*/true).ok());
  EXPECT_EQ(memory_.objects().at("runs/a b/x"), "mine");
  // The one that is there is another's; that a try broke proves nothing.
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

// 200 is sent before an upload is put together, and then turns out to be none.
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

TEST_F(BucketTest, UploadsThatNobodyCompletedAreEnded) {
  Limits limits = ShortLimits();
  limits.retry_for = absl::ZeroDuration();
  const auto bucket = Open(limits);
  // Neither the complete nor the end of the upload comes through, as after a crash.
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

// A request to end an upload without its name would be one to delete the object.
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

// What checksums are compared with: of "123456789" it is cbf43926.
TEST(Crc32, IsThatOfS3) {
  const std::string text = "123456789";
  const absl::Span<const char> whole(text);
  const absl::Span<const char> parts[] = {whole.subspan(0, 4), {}, whole.subspan(4)};
  EXPECT_EQ(Crc32Of({&whole, 1}), "y/Q5Jg==");
  EXPECT_EQ(Crc32Of(parts), "y/Q5Jg==");
  EXPECT_EQ(Crc32Of({}), "AAAAAA==");
}

}  // namespace
}  // namespace strata::s3
