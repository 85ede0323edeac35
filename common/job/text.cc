#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/enum_values.h"
#include "common/job/job.h"
#include "common/job/program_optimizer.h"
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

// Where (line, column), both from 0, lies in the text.
size_t OffsetOf(const std::string& text, int line, int column) {
  size_t start = 0;
  for (int i = 0; i < line; ++i) {
    const size_t end = text.find('\n', start);
    if (end == std::string::npos) break;
    start = end + 1;
  }
  return std::min(start + column, text.size());
}

// The field whose value stands at `offset`: the name before the ':' before it. Empty when there is
// none.
std::string FieldBefore(const std::string& text, size_t offset) {
  size_t end = offset;
  while (end > 0 && std::isspace(static_cast<unsigned char>(text[end - 1]))) --end;
  if (end == 0 || text[end - 1] != ':') return "";
  --end;
  size_t begin = end;
  while (begin > 0 && IsNameCharacter(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

// The parser reports some errors once it has read on: steps back to the start of a word that the
// message quotes, where that word is the last thing before `offset`.
size_t StartOfQuotedWord(const std::string& text, size_t offset, const std::string& message) {
  const size_t last = text.find_last_not_of(" \t\r\n", offset == 0 ? 0 : offset - 1);
  if (last == std::string::npos || offset == 0) return offset;
  size_t begin = last + 1;
  while (begin > 0 && IsNameCharacter(text[begin - 1])) --begin;
  const std::string word = text.substr(begin, last + 1 - begin);
  const bool quoted = !word.empty() && message.find("\"" + word + "\"") != std::string::npos;
  return quoted ? begin : offset;
}

// Keeps the first error as one line with its place, counted from 1 (the parser counts from 0).
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  FirstError(const std::string& text, const std::string& source) : text_(text), source_(source) {}

  void AddError(int line, int column, const std::string& message) override {
    if (!line_.empty()) return;
    if (line < 0) {
      line_ = absl::StrCat(source_, ": ", message);
      return;
    }
    const size_t offset = StartOfQuotedWord(text_, OffsetOf(text_, line, column), message);
    const size_t line_start = offset == 0 ? 0 : text_.rfind('\n', offset - 1) + 1;
    const auto line_number = 1 + std::count(text_.begin(), text_.begin() + offset, '\n');
    const std::string field = FieldBefore(text_, offset);
    const bool names_field = message.find("field") != std::string::npos;
    line_ =
        absl::StrFormat("%s:%d:%d: %s%s", source_, line_number, offset - line_start + 1,
                        names_field || field.empty() ? "" : field + ": ", WithEnumValues(message));
    if (absl::EndsWith(message, "got: ")) line_ += "the end";
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

template <typename Kind>
absl::StatusOr<Kind> Parse(const std::string& text, const std::string& source) {
  FirstError error(text, source);
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
