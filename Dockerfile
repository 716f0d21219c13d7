# The image of the coordinator, the executors and the command line (`python -m dsms.coordinator`,
# `python -m dsms.executor`, `dsms`). It contains neither Kafka nor Redis.
FROM python:3.11-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
COPY . .
RUN scripts/image program /source /opt/dsms && scripts/image user /

FROM python:3.11-slim-bookworm
COPY --from=eclipse-temurin:17-jre-jammy /opt/java/openjdk /opt/java
COPY --from=build /etc/passwd /etc/group /etc/
COPY --from=build --chown=10001:10001 /data /data
COPY --from=build /opt/dsms /opt/dsms
ENV JAVA_HOME=/opt/java PATH=/opt/dsms/bin:/opt/java/bin:/usr/local/bin:/usr/bin:/bin HOME=/tmp
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /data
ENTRYPOINT ["/opt/dsms/bin/python", "-m"]
CMD ["dsms.coordinator", "--help"]
