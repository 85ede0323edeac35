#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/job/consistency.h"
#include "common/job/enum_values.h"
#include "common/job/job.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace strata {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

class FirstMessage : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, int, const std::string& message) override {
    if (text_.empty()) text_ = message;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The value as it would stand in a job file behind the field's name.
std::string AsText(const FieldDescriptor& field, const std::string& value) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return absl::StrCat(field.name(), " ", value);
  }
  const bool quoted = !value.empty() && (value[0] == '"' || value[0] == '\'');
  const bool is_string = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  return is_string && !quoted ? absl::StrCat(field.name(), ": \"", absl::CEscape(value), "\"")
                              : absl::StrCat(field.name(), ": ", value);
}

// Parses the value into an otherwise empty message of the parent's type, and moves it over.
absl::Status SetField(const std::string& path, const FieldDescriptor* field,
                      const std::string& value, Message* parent) {
  const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (is_message && (value.empty() || (value[0] != '{' && value[0] != '<'))) {
    const FieldDescriptor* member = field->message_type()->FindFieldByName(value);
    const bool nested = member != nullptr && member->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    return absl::InvalidArgumentError(
        absl::StrFormat("%s has fields of its own: write %s%s", field->name(), path,
                        nested ? absl::StrCat(".", value, "={}") : "={...}"));
  }
  std::unique_ptr<Message> parsed(parent->New());
  FirstMessage error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(AsText(*field, value), parsed.get())) {
    return absl::InvalidArgumentError(WithEnumValues(error.text()));
  }
  std::vector<const FieldDescriptor*> present;
  parsed->GetReflection()->ListFields(*parsed, &present);
  if (present.size() > 1 || (present.size() == 1 && present[0] != field)) {
    return absl::InvalidArgumentError("one setting sets one field");
  }
  if (!field->is_repeated()) parent->GetReflection()->ClearField(parent, field);
  parent->MergeFrom(*parsed);
  return absl::OkStatus();
}

absl::Status ApplySetting(const std::string& path, const std::string& value, proto::Job* job) {
  Message* message = job;
  const std::vector<std::string> names = absl::StrSplit(path, '.');
  for (size_t i = 0; i < names.size(); ++i) {
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(names[i]);
    if (field == nullptr) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s has no field named \"%s\"", message->GetDescriptor()->name(), names[i]));
    }
    if (i + 1 == names.size()) return SetField(path, field, value, message);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s is a value and has no fields", field->name()));
    }
    if (field->is_repeated()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s is repeated: write %s={...} to add to it", field->name(),
                          absl::StrJoin(names.begin(), names.begin() + i + 1, ".")));
    }
    // Clears the other members of a oneof.
    message = message->GetReflection()->MutableMessage(message, field);
  }
  return absl::InvalidArgumentError("no field");
}

}  // namespace

absl::Status ApplySettings(const std::vector<std::string>& settings, proto::Job* job) {
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("setting \"%s\": expected path=value", setting));
    }
    proto::Job changed = *job;
    // Of what it stands for a field may be set.
    ExpandPreset(changed.mutable_consistency());
    const absl::Status status =
        ApplySetting(setting.substr(0, equals), setting.substr(equals + 1), &changed);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("setting \"%s\": %s", setting, status.message()));
    }
    job->Swap(&changed);
  }
  return absl::OkStatus();
}

}  // namespace strata
