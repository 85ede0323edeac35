#include "tests/e2e/message_list.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace strata::proto {
namespace {

namespace pb = google::protobuf;

std::string TypeOf(const pb::FieldDescriptor& field) {
  std::string type = field.type_name();
  if (field.message_type() != nullptr) type = field.message_type()->full_name();
  if (field.enum_type() != nullptr) type = field.enum_type()->full_name();
  return absl::StrCat(field.is_repeated() ? "repeated " : "", type);
}

void AddEnum(const pb::EnumDescriptor& type, std::vector<std::string>* lines) {
  for (int i = 0; i < type.value_count(); ++i) {
    const pb::EnumValueDescriptor& value = *type.value(i);
    lines->push_back(
        absl::StrCat("value ", type.full_name(), " ", value.number(), " ", value.name()));
  }
}

void AddMessage(const pb::Descriptor& type, std::vector<std::string>* lines) {
  for (int i = 0; i < type.field_count(); ++i) {
    const pb::FieldDescriptor& field = *type.field(i);
    lines->push_back(absl::StrCat("field ", type.full_name(), " ", field.number(), " ",
                                  TypeOf(field), " ", field.name()));
  }
  for (int i = 0; i < type.reserved_range_count(); ++i) {
    const auto& range = *type.reserved_range(i);
    for (int number = range.start; number < range.end; ++number) {
      lines->push_back(absl::StrCat("reserved ", type.full_name(), " ", number));
    }
  }
  for (int i = 0; i < type.nested_type_count(); ++i) AddMessage(*type.nested_type(i), lines);
  for (int i = 0; i < type.enum_type_count(); ++i) AddEnum(*type.enum_type(i), lines);
}

void AddService(const pb::ServiceDescriptor& service, std::vector<std::string>* lines) {
  for (int i = 0; i < service.method_count(); ++i) {
    const pb::MethodDescriptor& call = *service.method(i);
    lines->push_back(
        absl::StrCat("call ", call.full_name(), call.client_streaming() ? " stream " : " ",
                     call.input_type()->full_name(), call.server_streaming() ? " stream " : " ",
                     call.output_type()->full_name()));
  }
}

// A line as what it is of ("field strata.proto.Register 2") and what matters of it ("uint32").
std::pair<std::string, std::string> Split(const std::string& line) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  if (words[0] == "call") return {words[1], line};
  std::string what = absl::StrCat(words[0], " ", words[1], " ", words[2]);
  std::string type;
  // The last word of a field is its name.
  for (size_t i = 3; words[0] == "field" && i + 1 < words.size(); ++i) {
    absl::StrAppend(&type, words[i], " ");
  }
  return {std::move(what), std::move(type)};
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ListMessages(const std::string& descriptor_set) {
  pb::FileDescriptorSet files;
  if (!files.ParseFromString(descriptor_set)) {
    return absl::InvalidArgumentError("no FileDescriptorSet");
  }
  pb::DescriptorPool pool;
  std::vector<std::string> lines;
  for (const pb::FileDescriptorProto& described : files.file()) {
    const pb::FileDescriptor* const file = pool.BuildFile(described);
    if (file == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(described.name(), ": what it imports is missing, or comes after it"));
    }
    for (int i = 0; i < file->message_type_count(); ++i) {
      AddMessage(*file->message_type(i), &lines);
    }
    for (int i = 0; i < file->enum_type_count(); ++i) AddEnum(*file->enum_type(i), &lines);
    for (int i = 0; i < file->service_count(); ++i) AddService(*file->service(i), &lines);
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

std::vector<std::string> Breaks(const std::vector<std::string>& earlier,
                                const std::vector<std::string>& newer) {
  std::map<std::string, std::string> known;
  for (const std::string& line : newer) known.insert(Split(line));
  std::vector<std::string> breaks;
  for (const std::string& line : earlier) {
    const auto [what, type] = Split(line);
    const auto now = known.find(what);
    if (now != known.end() && now->second == type) continue;
    const bool is_field = absl::StartsWith(what, "field ");
    if (is_field && known.contains(absl::StrCat("reserved ", what.substr(6)))) continue;
    breaks.push_back(absl::StrCat(line, now == known.end()
                                            ? ": is gone, and its number is not reserved"
                                            : ": is another now"));
  }
  return breaks;
}

}  // namespace strata::proto
