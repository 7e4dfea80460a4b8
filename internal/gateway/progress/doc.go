// Package progress tells a client's stream of watches its progress as often as [core.Progress] decides. A progress of
// revision R says that all watches of the stream have had all events up to R. Only the store that serves the watches
// knows when that is so. So a [Stream] puts requests for progress among those of the client, and the store answers as
// it answers the client.
package progress
