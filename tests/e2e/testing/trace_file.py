"""A file that `--trace` has written, for tests."""

import collections
import json


class Span(collections.namedtuple("Span", "process name args begin end row")):
    """What a process, or a device for it, did; `row` names the row of the timeline."""

    @property
    def of(self):
        return self.args["clock"], self.args["chunk"]


class Trace:
    """A file, checked to be well formed."""

    def __init__(self, test, path):
        with open(path, encoding="utf-8") as file:
            self.json = json.load(file)
        self.names = {}  # of processes, by number
        self.rows = {}  # their names, by number
        self.spans = []
        open_ = {}
        for event in self.json["traceEvents"]:
            pid, tid = event["pid"], event["tid"]
            if event["ph"] == "M":
                named = {"process_name": self.names, "thread_name": self.rows}.get(event["name"])
                if named is not None:
                    number = pid if event["name"] == "process_name" else tid
                    test.assertNotIn(number, named)
                    named[number] = event["args"]["name"]
                continue
            begin = event["ts"]
            test.assertGreaterEqual(begin, 0)
            where = self.names[pid], event["name"]
            if event["ph"] == "X":
                end = begin + event["dur"]
                self.spans.append(Span(*where, event["args"], begin, end, self.rows[tid]))
            elif event["ph"] == "b":
                test.assertNotIn(event["id"], open_)
                open_[event["id"]] = (*where, event["args"], begin)
            else:
                test.assertEqual(event["ph"], "e")
                process, name, args, begun = open_[event["id"]]
                test.assertEqual(where, (process, name))
                test.assertGreaterEqual(begin, begun)
                self.spans.append(Span(process, name, args, begun, begin, self.rows[tid]))
        self.check_nesting(test)

    def of(self, name, process=""):
        return [s for s in self.spans if s.name == name and s.process.startswith(process)]

    def check_nesting(self, test):
        """Spans of a row lie beside each other or within each other."""
        rows = collections.defaultdict(list)
        for span in self.spans:
            if span.name not in ("ready", "server wait"):
                rows[span.process, span.row].append((span.begin, -span.end))
        for row, spans in rows.items():
            stack = []
            for begin, minus_end in sorted(spans):
                while stack and stack[-1] <= begin:
                    stack.pop()
                if stack:
                    test.assertLessEqual(-minus_end, stack[-1], row)
                stack.append(-minus_end)
