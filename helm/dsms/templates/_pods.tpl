{{- /* The security context of every pod: the restricted profile of Kubernetes, and a read-only root. */}}
{{- define "dsms.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "dsms.containerSecurity" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "dsms.imageName" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "dsms.image" -}}
image: {{ include "dsms.imageName" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- /* Node selection, tolerations and affinity of a pod; takes the root, and a component's values and name. */}}
{{- define "dsms.placement" -}}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with include "dsms.spread" . | trim }}
topologySpreadConstraints:
  {{- . | nindent 2 }}
{{- end }}
affinity:
  {{- if .values.affinity }}
  {{- toYaml .values.affinity | nindent 2 }}
  {{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "dsms.selector" .root | nindent 14 }}
              app.kubernetes.io/component: {{ .component }}
  {{- end }}
{{- end }}

{{- define "dsms.podFacts" -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: POD_IP
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
{{- end }}

{{- /* The addresses of Kafka and Redis. Secrets are in the environment or in files, never on a command line. */}}
{{- define "dsms.services" -}}
- name: DSMS_CLUSTER
  value: {{ .Values.cluster | default .Release.Name | quote }}
- name: DSMS_KAFKA
  value: {{ include "dsms.kafka" . | quote }}
{{- if .Values.kafka.propertiesSecret.name }}
- name: DSMS_KAFKA_PROPERTIES
  value: /etc/dsms/kafka/client.properties
{{- end }}
- name: DSMS_REDIS
{{- if and .Values.redis.url .Values.redis.urlSecret.name }}
{{- fail "redis.url and redis.urlSecret are both set: choose one" }}
{{- else if and .Values.redis.urlSecret.name (not (.Values.redis.single | default dict).enabled) }}
  valueFrom:
    secretKeyRef:
      name: {{ .Values.redis.urlSecret.name }}
      key: {{ .Values.redis.urlSecret.key }}
{{- else }}
  value: {{ include "dsms.redis" . | quote }}
{{- end }}
{{- if .Values.secretsSecret }}
- name: DSMS_SECRETS_DIR
  value: /etc/dsms/secrets
{{- end }}
{{- with .Values.registryUrl }}
- name: DSMS_REGISTRY
  value: {{ . | quote }}
{{- end }}
{{- with .Values.telemetry.otlpEndpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- end }}

{{- /* The environment of pods whose workers run Python code of users. */}}
{{- define "dsms.pythonSandbox" -}}
- name: DSMS_PYTHON_SANDBOX
  value: {{ .Values.executor.pythonSandbox | default "require" | quote }}
{{- end }}

{{- define "dsms.secretMounts" -}}
{{- if .Values.kafka.propertiesSecret.name }}
- name: kafka
  mountPath: /etc/dsms/kafka
  readOnly: true
{{- end }}
{{- if .Values.redis.caSecret.name }}
- name: redis-ca
  mountPath: /etc/dsms/redis
  readOnly: true
{{- end }}
{{- if .Values.secretsSecret }}
- name: secrets
  mountPath: /etc/dsms/secrets
  readOnly: true
{{- end }}
{{- end }}

{{- /* How a pod calls the coordinator: the URL, the certificate authority to trust, its certificate, and its token. */}}
{{- define "dsms.callerEnv" -}}
- name: DSMS_COORDINATOR
  value: {{ include "dsms.coordinatorUrl" . }}
{{- if .Values.api.tlsSecret }}
- name: SSL_CERT_FILE
  value: /etc/dsms/tls/ca.crt
{{- end }}
{{- if .Values.api.executorTlsSecret }}
- name: DSMS_TLS_CLIENT_CERT
  value: /etc/dsms/client/tls.crt
- name: DSMS_TLS_CLIENT_KEY
  value: /etc/dsms/client/tls.key
{{- end }}
{{- if .Values.api.executorTokenSecret.name }}
- name: DSMS_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ .Values.api.executorTokenSecret.name }}
      key: {{ .Values.api.executorTokenSecret.key }}
{{- end }}
{{- end }}

{{- define "dsms.callerMounts" -}}
{{- if .Values.api.tlsSecret }}
- name: tls
  mountPath: /etc/dsms/tls
  readOnly: true
{{- end }}
{{- if .Values.api.executorTlsSecret }}
- name: client-tls
  mountPath: /etc/dsms/client
  readOnly: true
{{- end }}
{{- end }}

{{- define "dsms.callerVolumes" -}}
{{- with .Values.api.tlsSecret }}
- name: tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
    items:
      - key: ca.crt
        path: ca.crt
{{- end }}
{{- with .Values.api.executorTlsSecret }}
- name: client-tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- end }}

{{- define "dsms.secretVolumes" -}}
{{- with .Values.kafka.propertiesSecret }}
{{- if .name }}
- name: kafka
  secret:
    secretName: {{ .name }}
    defaultMode: 0440
    items:
      - key: {{ .key }}
        path: client.properties
{{- end }}
{{- end }}
{{- with .Values.redis.caSecret }}
{{- if .name }}
- name: redis-ca
  secret:
    secretName: {{ .name }}
    defaultMode: 0440
    items:
      - key: {{ .key }}
        path: ca.crt
{{- end }}
{{- end }}
{{- with .Values.secretsSecret }}
- name: secrets
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- end }}
