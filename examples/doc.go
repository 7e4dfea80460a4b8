// Package examples holds programs that use the client. They open the cluster that `netcraq up` started, or the one that
// the NETCRAQ_* environment variables name.
package examples
