#include "cli/options/screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "cli/options/terminal.h"
#include "common/os/environment.h"

namespace strata::cli {
namespace {

// The other screen of the terminal, on which nothing scrolls away, and no cursor.
constexpr char kEnter[] = "\033[?1049h\033[?25l";
constexpr char kLeave[] = "\033[?25h\033[?1049l";
constexpr char kHome[] = "\033[H";
constexpr char kRestOfLine[] = "\033[K";
constexpr char kRestOfScreen[] = "\033[J";
// The interval of checks for another size of the terminal.
constexpr absl::Duration kLook = absl::Milliseconds(250);

}  // namespace

bool UsesColours() {
  const Environment environment = OwnEnvironment();
  const std::string terminal = Variable(environment, "TERM");
  return Variable(environment, "NO_COLOR").empty() && !terminal.empty() && terminal != "dumb";
}

std::optional<Screen::Size> Screen::SizeOf(std::FILE* file) {
  winsize window;
  if (isatty(fileno(file)) == 0) return std::nullopt;
  if (ioctl(fileno(file), TIOCGWINSZ, &window) != 0 || window.ws_col == 0) return Size();
  return Size{.columns = window.ws_col, .rows = window.ws_row};
}

absl::StatusOr<std::unique_ptr<Screen>> Screen::Open(std::FILE* in, std::FILE* out) {
  absl::StatusOr<EventFd> wake = EventFd::Create();
  if (!wake.ok()) return wake.status();
  return std::unique_ptr<Screen>(new Screen(in, out, *std::move(wake)));
}

Screen::Screen(std::FILE* in, std::FILE* out, EventFd wake)
    : in_(in), out_(out), wake_(std::move(wake)) {
  reads_keys_ = tcgetattr(fileno(in_), &before_) == 0;
  if (reads_keys_) {
    termios by_key = before_;
    by_key.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    tcsetattr(fileno(in_), TCSANOW, &by_key);
  }
  WriteBytes(out_, kEnter);
}

Screen::~Screen() {
  WriteBytes(out_, kLeave);
  std::fflush(out_);
  if (reads_keys_) tcsetattr(fileno(in_), TCSANOW, &before_);
}

Screen::Size Screen::size() const { return SizeOf(out_).value_or(Size()); }

void Screen::Draw(const std::string& lines) {
  size_t end = 0;
  for (int row = size().rows; row > 0 && end < lines.size(); --row) {
    end = std::min(lines.find('\n', end), lines.size() - 1) + 1;
  }
  std::string drawn = lines.substr(0, end);
  // A line's end below the last row would move all up by one.
  if (absl::EndsWith(drawn, "\n")) drawn.pop_back();
  // Overwritten in place, not cleared first: it does not flicker.
  drawn = absl::StrReplaceAll(drawn, {{"\n", std::string(kRestOfLine) + "\r\n"}});
  WriteBytes(out_, kHome + drawn + kRestOfLine + kRestOfScreen);
  std::fflush(out_);
}

char Screen::AwaitKey(absl::Time until) {
  const Size drawn = size();
  while (true) {
    const absl::Duration left = std::max(absl::ZeroDuration(), until - absl::Now());
    pollfd waits[2] = {{.fd = wake_.fd(), .events = POLLIN, .revents = 0},
                       {.fd = reads_keys_ ? fileno(in_) : -1, .events = POLLIN, .revents = 0}};
    poll(waits, 2, static_cast<int>(absl::ToInt64Milliseconds(std::min(left, kLook))) + 1);
    if (wake_.Drain()) return 0;
    char key = 0;
    if (waits[1].revents != 0) {
      if (read(fileno(in_), &key, 1) == 1) return key;
      reads_keys_ = false;  // the terminal is gone
    }
    const Size now = size();
    if (now.columns != drawn.columns || now.rows != drawn.rows || absl::Now() >= until) return 0;
  }
}

}  // namespace strata::cli
