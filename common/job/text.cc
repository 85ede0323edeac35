#include <cctype>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/job.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace strata {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

bool IsNameCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The field whose value stands at (line, column): the last name before it that a ':' or an opening
// brace follows. Empty when there is none on that line.
std::string FieldBefore(const std::string& text, int line, int column) {
  size_t start = 0;
  for (int i = 0; i < line && start != std::string::npos; ++i) {
    start = text.find('\n', start);
    if (start != std::string::npos) ++start;
  }
  if (start == std::string::npos) return "";
  const std::string before = text.substr(start, column);
  const size_t colon = before.find_last_of(":{");
  if (colon == std::string::npos) return "";
  size_t end = colon;
  while (end > 0 && before[end - 1] == ' ') --end;
  size_t begin = end;
  while (begin > 0 && IsNameCharacter(before[begin - 1])) --begin;
  return before.substr(begin, end - begin);
}

// Keeps the first error as one line with its place. The parser's own columns and lines count from
// 0.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  FirstError(const std::string& text, const std::string& source) : text_(text), source_(source) {}

  void AddError(int line, int column, const std::string& message) override {
    if (!line_.empty()) return;
    if (line < 0) {
      line_ = absl::StrCat(source_, ": ", message);
      return;
    }
    const std::string field = FieldBefore(text_, line, column);
    const bool names_field = message.find("field") != std::string::npos;
    line_ = absl::StrFormat("%s:%d:%d: %s%s", source_, line + 1, column + 1,
                            names_field || field.empty() ? "" : field + ": ", message);
  }
  const std::string& line() const { return line_; }

 private:
  const std::string& text_;
  const std::string& source_;
  std::string line_;
};

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

}  // namespace

absl::StatusOr<proto::Job> ParseJob(const std::string& text, const std::string& source) {
  FirstError error(text, source);
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  proto::Job job;
  if (!parser.ParseFromString(text, &job)) return absl::InvalidArgumentError(error.line());
  return job;
}

std::string JobToText(const proto::Job& job) {
  std::string text;
  Print(job, 0, &text);
  return text;
}

}  // namespace strata
