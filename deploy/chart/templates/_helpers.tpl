{{- define "netcraq.labels" -}}
app.kubernetes.io/name: netcraq
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "netcraq.image" -}}
image: {{ printf "%s:%s" .Values.image.repository .Values.image.tag | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- define "netcraq.controllers" -}}
{{- $addresses := list }}
{{- range .Values.controllers.members }}{{ $addresses = append $addresses .address }}{{ end }}
{{- join "," $addresses }}
{{- end }}

{{/* The volume with the certificate of a role, or nothing: (dict "root" $ "role" "node"). */}}
{{- define "netcraq.identity" -}}
{{- $secret := get .root.Values.identitySecrets .role }}
{{- if $secret -}}
- name: identity
  secret: {secretName: {{ $secret }}, defaultMode: 0400}
{{- else if .root.Values.identityPath -}}
- name: identity
  hostPath: {path: {{ .root.Values.identityPath }}/{{ .role }}, type: Directory}
{{- end }}
{{- end }}

{{/* Fails for values with which some of the programs could not talk to the others. */}}
{{- define "netcraq.checkIdentity" -}}
{{- $controller := include "netcraq.identity" (dict "root" . "role" "controller") }}
{{- $node := include "netcraq.identity" (dict "root" . "role" "node") }}
{{- if ne (empty $controller) (empty $node) }}
{{- fail "controllers and nodes need a certificate: give identitySecrets.controller and identitySecrets.node, or identityPath" }}
{{- end }}
{{- if and .Values.tags (empty $node) }}
{{- fail "tags needs certificates, give identitySecrets or identityPath: without them any host could request the keys" }}
{{- end }}
{{- end }}

{{/* The static pod of a gateway: (dict "root" $ "name" N "command" C "values" V "args" ARGS "peers" P). C is gateway unless
given. A static pod cannot use a Secret. */}}
{{- define "netcraq.gatewayPod" -}}
{{- $identity := include "netcraq.identity" (dict "root" .root "role" "operator") }}
{{- if and .root.Values.identitySecrets.node (empty $identity) }}
{{- fail "a static pod cannot use a Secret: give identityPath, with the directory operator on machines with a gateway" }}
{{- end }}
apiVersion: v1
kind: Pod
metadata:
  name: {{ .root.Release.Name }}-{{ .name }}
  namespace: kube-system
  labels: {{- include "netcraq.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .name }}
    tier: control-plane
spec:
  hostNetwork: true
  priorityClassName: system-node-critical
  containers:
    - name: gateway
      {{- include "netcraq.image" .root | nindent 6 }}
      command: [/netcraq, {{ .command | default "gateway" }}]
      args:
        {{- range .args }}
        - {{ . }}
        {{- end }}
        - --controllers={{ include "netcraq.controllers" .root }}
        {{- with .values.pkiPath }}
        # Towards {{ $.peers }}. The certificate has no common name: etcd would take it for the name of every client.
        - --cacert={{ . }}/ca.crt
        - --cert={{ . }}/netcraq-gateway.crt
        - --key={{ . }}/netcraq-gateway.key
        # Towards the API server: those of the etcd member of this machine. Clients need a certificate of etcd's authority.
        - --cert-file={{ . }}/server.crt
        - --key-file={{ . }}/server.key
        - --trusted-ca-file={{ . }}/ca.crt
        {{- end }}
        {{- if $identity }}
        - --identity=/identity
        {{- end }}
        - --log-format=json
        {{- range .values.args }}
        - {{ . | quote }}
        {{- end }}
      {{- with .env }}
      env:
        {{- . | nindent 8 }}
      {{- end }}
      # /livez fails when no connection is accepted. Not /health, which fails with its store: another start would not help.
      {{- $at := splitList ":" .values.metricsListen }}
      livenessProbe:
        httpGet: {host: {{ first $at }}, port: {{ last $at }}, path: /livez}
        periodSeconds: 10
        failureThreshold: 6
      resources: {{- toYaml .values.resources | nindent 8 }}
      securityContext:
        readOnlyRootFilesystem: true
        allowPrivilegeEscalation: false
        {{- if .pins }}
        # BPF and PERFMON load the program that reads the tables of this machine's node; root owns the tables.
        capabilities: {drop: [ALL], add: [BPF, PERFMON]}
        {{- else }}
        capabilities: {drop: [ALL]}
        {{- end }}
      {{- $volumes := list }}
      {{- if .pins }}
      {{- $volumes = append $volumes "- name: bpf\n  hostPath: {path: /sys/fs/bpf, type: Directory}" }}
      {{- end }}
      {{- with .values.pkiPath }}
      {{- $volumes = append $volumes (printf "- name: pki\n  hostPath: {path: %s, type: Directory}" .) }}
      {{- end }}
      {{- with .values.dataPath }}
      {{- $volumes = append $volumes (printf "- name: data\n  hostPath: {path: %s, type: DirectoryOrCreate}" .) }}
      {{- end }}
      {{- if $identity }}{{ $volumes = append $volumes $identity }}{{ end }}
      {{- if or $volumes .memory }}
      volumeMounts:
        {{- if .pins }}
        - {name: bpf, mountPath: /sys/fs/bpf, readOnly: true}
        {{- end }}
        {{- with .values.pkiPath }}
        - {name: pki, mountPath: {{ . }}, readOnly: true}
        {{- end }}
        {{- with .values.dataPath }}
        - {name: data, mountPath: {{ . }}}
        {{- end }}
        {{- if $identity }}
        - {name: identity, mountPath: /identity, readOnly: true}
        {{- end }}
        {{- if .memory }}
        - {name: shm, mountPath: /dev/shm}
        {{- end }}
  volumes:
    {{- range $volumes }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- if .memory }}
    - name: shm # the keyspace's copy
      emptyDir: {medium: Memory}
    {{- end }}
      {{- end }}
{{- end }}
