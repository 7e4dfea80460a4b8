// Package h2spec runs h2spec, which tests servers of HTTP/2 against the RFC, on the ports of a gateway and of an etcd.
package h2spec
