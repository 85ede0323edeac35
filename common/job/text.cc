#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/enum_values.h"
#include "common/job/job.h"
#include "common/job/program_optimizer.h"
#include "common/text_error.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/text_format.h"

namespace strata {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

// Prints `message` with every field that is not an absent message or an absent optional value, so
// that defaults which are zero can be seen too.
void Print(const Message& message, int indent, std::string* out) {
  const Reflection& reflection = *message.GetReflection();
  const std::string margin(indent, ' ');
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    if (!field->is_repeated() && field->has_presence() && !reflection.HasField(message, field)) {
      continue;
    }
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int k = 0; k < count; ++k) {
      const int index = field->is_repeated() ? k : -1;
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
        std::string value;
        TextFormat::PrintFieldValueToString(message, field, index, &value);
        absl::StrAppend(out, margin, field->name(), ": ", value, "\n");
        continue;
      }
      const Message& child = index < 0 ? reflection.GetMessage(message, field)
                                       : reflection.GetRepeatedMessage(message, field, index);
      std::string body;
      Print(child, indent + 2, &body);
      absl::StrAppend(out, margin, field->name(),
                      body.empty() ? " {}\n" : absl::StrCat(" {\n", body, margin, "}\n"));
    }
  }
}

template <typename Kind>
absl::StatusOr<Kind> Parse(const std::string& text, const std::string& source) {
  FirstTextError error(text, source, WithEnumValues);
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  Kind parsed;
  if (!parser.ParseFromString(text, &parsed)) return absl::InvalidArgumentError(error.line());
  return parsed;
}

}  // namespace

absl::StatusOr<proto::Job> ParseJob(const std::string& text, const std::string& source) {
  return Parse<proto::Job>(text, source);
}

absl::StatusOr<proto::Optimizer> ParseOptimizer(const std::string& text) {
  auto optimizer = Parse<proto::Optimizer>(text, "the program's optimizer");
  if (!optimizer.ok() || optimizer->kind_case() == proto::Optimizer::KIND_NOT_SET) {
    return optimizer;
  }
  proto::Job job;
  *job.mutable_optimizer() = *std::move(optimizer);
  FillDefaults(&job);
  return job.optimizer();
}

std::string JobToText(const proto::Job& job) {
  std::string text;
  Print(job, 0, &text);
  return text;
}

}  // namespace strata
