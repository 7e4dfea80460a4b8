import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.etcd.jetcd.maintenance.StatusResponse;
import java.io.ByteArrayOutputStream;
import java.util.List;
import org.junit.jupiter.api.Test;

class ClusterTest extends Store {
  @Test
  void hasMembersAndALeader() throws Exception {
    StatusResponse status = get(client.getMaintenanceClient().statusMember(ADDRESS));
    assertTrue(status.getVersion().startsWith("3."), status.getVersion());
    assertTrue(get(client.getClusterClient().listMember()).getMembers().stream()
        .anyMatch(member -> member.getId() == status.getLeader()));
  }

  @Test
  void hasNoAlarms() throws Exception {
    assertEquals(List.of(), get(client.getMaintenanceClient().listAlarms()).getAlarms());
  }

  @Test
  void hasAHash() throws Exception {
    put("k", 1);
    assertTrue(get(client.getMaintenanceClient().hashKV(ADDRESS, 0)).getHash() != 0);
  }

  @Test
  void makesSnapshots() throws Exception {
    ByteArrayOutputStream output = new ByteArrayOutputStream();
    assertEquals(get(client.getMaintenanceClient().snapshot(output)), (long) output.size());
    assertTrue(output.size() > 0);
  }
}
