#include "common/os/message_bounds.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "gtest/gtest.h"
#include "proto/cluster.pb.h"
#include "proto/control.pb.h"
#include "proto/keys.pb.h"
#include "proto/logs.pb.h"

namespace strata {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::string_view kPackage = "strata.proto.";

// All messages of proto/*.proto, including nested ones.
std::vector<const Descriptor*> AllMessages() {
  const std::vector<const FileDescriptor*> files = {
      proto::Job::descriptor()->file(),           proto::JobRecord::descriptor()->file(),
      proto::Refusal::descriptor()->file(),       proto::SubmitRequest::descriptor()->file(),
      proto::JoinRequest::descriptor()->file(),   proto::ReadLogs::descriptor()->file(),
      proto::ClusterPolicy::descriptor()->file(), proto::Cluster::descriptor()->file()};
  std::vector<const Descriptor*> messages;
  for (const FileDescriptor* file : files) {
    for (int i = 0; i < file->message_type_count(); ++i) messages.push_back(file->message_type(i));
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    for (int k = 0; k < messages[i]->nested_type_count(); ++k) {
      messages.push_back(messages[i]->nested_type(k));
    }
  }
  return messages;
}

std::string NameOf(const FieldDescriptor* field) {
  return std::string(field->full_name()).substr(kPackage.size());
}

bool NeedsBound(const FieldDescriptor* field) {
  return field->is_repeated() || field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
}

// A string, or a list or map of strings.
bool HoldsStrings(const FieldDescriptor* field) {
  if (!field->is_map()) return field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  return field->message_type()->map_key()->cpp_type() == FieldDescriptor::CPPTYPE_STRING ||
         field->message_type()->map_value()->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
}

TEST(MessageBounds, EachStringListAndMapOfAllProtoFilesHasOneAndThereIsNoOther) {
  std::set<std::string> fields;
  for (const Descriptor* type : AllMessages()) {
    if (type->options().map_entry()) continue;
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor* field = type->field(i);
      if (!NeedsBound(field)) continue;
      fields.insert(NameOf(field));
      const std::optional<FieldBound> bound = BoundOf(NameOf(field));
      ASSERT_TRUE(bound.has_value())
          << NameOf(field) << " has no bound: add it to message_bounds.cc";
      EXPECT_GT(bound->count_max, 0) << NameOf(field);
      EXPECT_EQ(bound->count_max > 1, field->is_repeated()) << NameOf(field);
      EXPECT_EQ(bound->bytes_max > 0, HoldsStrings(field)) << NameOf(field);
    }
  }
  EXPECT_GT(fields.size(), 200);
  std::set<std::string> bounded;
  for (const auto& [field, bound] : AllBounds()) {
    EXPECT_TRUE(bounded.insert(std::string(field)).second) << field << " is there twice";
  }
  EXPECT_EQ(bounded, fields);
}

// So the schema bounds the nesting of messages.
TEST(MessageBounds, NoMessageHoldsItself) {
  std::map<const Descriptor*, int> depths;
  std::set<const Descriptor*> open;
  const auto depth_of = [&](const auto& self, const Descriptor* type) -> int {
    if (const auto known = depths.find(type); known != depths.end()) return known->second;
    EXPECT_TRUE(open.insert(type).second) << std::string(type->full_name()) << " holds itself";
    int depth = 1;
    for (int i = 0; i < type->field_count() && open.size() < 100; ++i) {
      if (type->field(i)->message_type() == nullptr) continue;
      depth = std::max(depth, 1 + self(self, type->field(i)->message_type()));
    }
    open.erase(type);
    return depths[type] = depth;
  };
  for (const Descriptor* type : AllMessages()) EXPECT_LE(depth_of(depth_of, type), 12);
}

proto::SubmitRequest Good() {
  proto::SubmitRequest request;
  request.mutable_job()->set_name("digits");
  request.mutable_job()->set_run_dir("/runs/digits");
  request.mutable_job()->mutable_program()->set_path("train.py");
  request.mutable_job()->mutable_program()->add_args("--epochs=3");
  return request;
}

std::string ErrorOf(const google::protobuf::Message& message) {
  const absl::Status status = CheckBounds(message);
  if (!status.ok()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  }
  return std::string(status.message());
}

TEST(MessageBounds, TakesWhatFits) {
  proto::SubmitRequest request = Good();
  EXPECT_EQ(ErrorOf(request), "");
  request.mutable_job()->set_run_dir(std::string(4096, 'a'));
  request.mutable_job()->mutable_program()->clear_args();
  for (int i = 0; i < 1024; ++i) {
    request.mutable_job()->mutable_program()->add_args(std::string(120, 'x'));
  }
  EXPECT_EQ(ErrorOf(request), "");
}

TEST(MessageBounds, NameTheFieldAndTheBound) {
  proto::SubmitRequest request = Good();
  request.mutable_job()->set_run_dir(std::string(40'000'000, 'a'));
  EXPECT_EQ(ErrorOf(request), "job.run_dir has 40000000 bytes, at most 4096 are possible");
  // A job file is the outermost message.
  EXPECT_EQ(ErrorOf(request.job()), "run_dir has 40000000 bytes, at most 4096 are possible");

  request = Good();
  for (int i = 0; i < 300'000; ++i) request.mutable_job()->mutable_program()->add_env("A=1");
  EXPECT_EQ(ErrorOf(request), "job.program.env has 300000 elements, at most 16384 are possible");

  request = Good();
  request.mutable_job()->mutable_program()->add_args(std::string(20'000'000, 'b'));
  EXPECT_EQ(ErrorOf(request),
            "job.program.args[1] has 20000000 bytes, at most 135168 are possible");

  // Each argument fits, but all together do not.
  request = Good();
  request.mutable_job()->mutable_program()->clear_args();
  request.mutable_job()->mutable_program()->add_args(std::string(70'000, 'c'));
  request.mutable_job()->mutable_program()->add_env("B=" + std::string(70'000, 'c'));
  EXPECT_EQ(ErrorOf(request),
            "job.program has 140020 bytes of path, arguments and environment, at most 135168 are "
            "possible");
}

TEST(MessageBounds, RefuseANulInEachString) {
  proto::SubmitRequest request = Good();
  request.mutable_job()->set_run_dir(std::string("a\0b", 3));
  EXPECT_EQ(ErrorOf(request), "job.run_dir has a NUL byte");
  request = Good();
  request.mutable_job()->mutable_program()->add_env(std::string("A=\0", 3));
  EXPECT_EQ(ErrorOf(request), "job.program.env[0] has a NUL byte");
  proto::RankReport report;
  (*report.mutable_values())[std::string("lo\0ss", 5)] = 1;
  EXPECT_EQ(ErrorOf(report), "values[0].key has a NUL byte");
  // Bytes are not text.
  proto::LogPart part;
  part.set_lines(std::string("a\0b\n", 4));
  EXPECT_EQ(ErrorOf(part), "");
}

TEST(MessageBounds, HoldDeepInsideAndForKeysOfMaps) {
  proto::DaemonMessage message;
  proto::Layout* layout = message.mutable_node_ready()->mutable_layout();
  layout->add_segments()->set_name("fc1.weight");
  layout->add_segments()->set_name(std::string(1025, 'w'));
  EXPECT_EQ(ErrorOf(message),
            "node_ready.layout.segments[1].name has 1025 bytes, at most 1024 are possible");
  message.Clear();
  (*message.mutable_rank_report()->mutable_values())[std::string(257, 'k')] = 1;
  EXPECT_EQ(ErrorOf(message), "rank_report.values[0].key has 257 bytes, at most 256 are possible");
}

TEST(MessageBounds, HoldForFieldsOfOtherVersions) {
  proto::SubmitRequest request = Good();
  auto* const unknown = proto::Job::GetReflection()->MutableUnknownFields(request.mutable_job());
  unknown->AddLengthDelimited(5000, "new");
  EXPECT_EQ(ErrorOf(request), "");
  unknown->AddLengthDelimited(5001, std::string(1 << 20, 'x'));
  EXPECT_EQ(ErrorOf(request), "job has fields of another version that take more than 16384 bytes");
}

TEST(MessageBounds, NameTheLargestFieldOfWhatIsTooLargeToBeParsed) {
  proto::SubmitRequest request = Good(), parsed;
  EXPECT_TRUE(ParseBounded(request.SerializeAsString(), &parsed).ok());
  EXPECT_EQ(parsed.job().run_dir(), "/runs/digits");
  parsed.Clear();

  const auto error_of = [&](const proto::SubmitRequest& sent) {
    const absl::Status status = ParseBounded(sent.SerializeAsString(), &parsed);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(parsed.ByteSizeLong(), 0) << "it was parsed";
    return std::string(status.message());
  };
  request.mutable_job()->set_run_dir(std::string(40'000'000, 'a'));
  EXPECT_EQ(error_of(request), "job.run_dir has 40000000 bytes, at most 4096 are possible");

  request = Good();
  for (int i = 0; i < 300'000; ++i) request.mutable_job()->mutable_program()->add_env("A=1");
  EXPECT_EQ(
      error_of(request),
      "job.program.env has 900000 of the 1500053 bytes of a SubmitRequest, at most 278528 are "
      "possible");

  // Empty messages are many times as large once parsed.
  request = Good();
  for (int i = 0; i < 1'000'000; ++i) request.mutable_job()->mutable_debug()->add_delays();
  EXPECT_THAT(error_of(request), HasSubstr("at most 278528 are possible"));

  EXPECT_EQ(ParseBounded("\xff\xff", &parsed).message(), "the bytes are not a SubmitRequest");
  EXPECT_EQ(ParseBounded(std::string(kSubmitBytesMax + 1, '\xff'), &parsed).message(),
            "SubmitRequest has 278529 bytes, at most 278528 are possible");
}

TEST(MessageBounds, ReasonsThatAreTooLongAreShortenedAndNothingElseIs) {
  proto::DaemonMessage message;
  message.mutable_node_failed()->set_reason(std::string(1 << 20, 'r'));
  EXPECT_EQ(ErrorOf(message), "node_failed.reason has 1048576 bytes, at most 16384 are possible");
  FitProse(&message);
  EXPECT_EQ(ErrorOf(message), "");
  EXPECT_EQ(message.node_failed().reason(), std::string(16381, 'r') + "...");

  message.Clear();
  proto::PeerReach* peer = message.mutable_peers_tried()->add_peers();
  peer->set_error(std::string("a\0b", 3));
  peer->set_name(std::string(300, 'n'));
  FitProse(&message);
  EXPECT_EQ(peer->error(), "a?b");
  EXPECT_EQ(peer->name(), std::string(300, 'n'));
  EXPECT_EQ(ErrorOf(message), "peers_tried.peers[0].name has 300 bytes, at most 256 are possible");
}

TEST(MessageBounds, ATextThatIsFittedEndsBetweenTwoCharacters) {
  std::string text = "short";
  FitText(10, &text);
  EXPECT_EQ(text, "short");
  text = std::string("a\0b", 3);
  FitText(10, &text);
  EXPECT_EQ(text, "a?b");
  text = "0123456789a";
  FitText(10, &text);
  EXPECT_EQ(text, "0123456...");
  text = "012345\xc3\xa4\xc3\xa4\xc3\xa4";  // each of the last three takes two bytes
  FitText(10, &text);
  EXPECT_EQ(text, "012345...");
}

std::string BytesText(size_t bytes) {
  if (bytes % (1 << 20) == 0) return absl::StrCat(bytes >> 20, " MiB");
  return bytes % (1 << 10) == 0 ? absl::StrCat(bytes >> 10, " KiB") : absl::StrCat(bytes, " bytes");
}

// The table of docs/limits.md: a line per limit, with the fields that have it.
std::string BoundsTable() {
  std::map<std::pair<size_t, size_t>, std::vector<std::string>> by_bound;
  for (const auto& [field, bound] : AllBounds()) {
    by_bound[{bound.bytes_max, bound.count_max}].push_back(absl::StrCat("`", field, "`"));
  }
  std::string table = "| elements | bytes of each | fields |\n| --- | --- | --- |\n";
  for (auto& [bound, fields] : by_bound) {
    const auto& [bytes, count] = bound;
    std::sort(fields.begin(), fields.end());
    absl::StrAppend(&table, "| ", count == 1 ? "-" : absl::StrCat(count), " | ",
                    bytes == 0 ? "-" : BytesText(bytes), " | ", absl::StrJoin(fields, ", "),
                    " |\n");
  }
  return table;
}

TEST(MessageBounds, TheTableOfThePageIsTheOneThatHolds) {
  std::ifstream file("docs/limits.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_TRUE(absl::StrContains(page.str(), BoundsTable())) << "docs/limits.md needs this table:\n"
                                                            << BoundsTable();
}

}  // namespace
}  // namespace strata
