// Runs test suites of other projects through the gateway. They are compiled in modules of their own.
module github.com/netcraq/netcraq/tools/suites

go 1.26.0
