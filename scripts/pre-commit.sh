#!/bin/bash
# Quick checks before a commit: formats, generated files, the rules of the architecture, and the linters on changed lines.
# `make hooks` installs it; `git commit --no-verify` skips it.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"
unset GIT_DIR GIT_INDEX_FILE
make --no-print-directory format-check
go run ./internal/tools/wiregen -check
go test ./internal/tools/archtest
make --no-print-directory lint-new BASE=HEAD
